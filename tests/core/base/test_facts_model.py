"""What every registered model of facts keeps to: one score per fact, proofs that add up, files that load again."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from ctp_core.artifact import decode, encode
from ctp_core.base.config import BaseConfig
from ctp_core.base.facts_model import EXPLAINED_AT_ONCE, FactsModel, FactsView
from ctp_core.base.goals import GoalIds, Place
from ctp_core.base.model import Answer, Answers, Budget, Model, Question
from ctp_core.ctp_facts.config import CtpFactsConfig
from ctp_core.embeddings.config import ComplexConfig, DistMultConfig
from ctp_core.errors import BadQuestion, DataError, UnknownSymbol
from ctp_core.evidence.config import ProofsConfig, RulesConfig
from ctp_core.frontier.config import FrontierConfig
from ctp_core.hybrid.config import HybridConfig
from ctp_core.kb.knowledge_base import FactIds, FactsKB
from ctp_core.methods import parse_config
from ctp_core.registry import MODELS, create_trainer, load_model
from ctp_core.symbols import Fact, Goal
from ctp_core.walkers.config import MinervaConfig, NeuralLpConfig
from tests.core.clock import BudgetOfLooks
from tests.core.families import random_family
from tests.variants import slow_but

CPU = torch.device("cpu")
CONFIGS: dict[str, BaseConfig] = {
    "proofs": ProofsConfig(
        templates={"1": 3, "1X": 1, "1Y": 1, "2": 3, "3": 2},
        epochs=40,
        batch_size=2,
        learning_rate=0.1,
        hidden_facts=0.2,
    ),
    "rules": RulesConfig(sample=50, steps=40),
    "ctp": CtpFactsConfig(templates=("0", "1R", "2", "3"), dim=6, epochs=3, batch_size=16, select="attentive"),
    "complex": ComplexConfig(rank=8, epochs=6, batch_size=16, negatives=5, grouped=True),
    "distmult": DistMultConfig(rank=8, epochs=6, batch_size=16, reciprocal=False),
    "neurallp": NeuralLpConfig(dim=8, epochs=6, batch_size=2, length=2),
    "minerva": MinervaConfig(dim=8, epochs=4, beam=10, eval_every=1),
    "frontier": FrontierConfig(steps=2, dim=8, epochs=8, batch_size=8, eval_every=4),
    "hybrid": HybridConfig(
        proofs=ProofsConfig(templates={"1": 2, "2": 3}, epochs=5, members=2, loss="open_world", saturation=0.2),
        embedding=ComplexConfig(rank=4, epochs=4),
    ),
}
VARIANTS: dict[str, BaseConfig] = {
    "proofs by share": ProofsConfig(
        templates={"1": 2, "1X": 1, "2": 3, "3": 2, "4": 1},
        counting="share",
        ranked="hidden",
        epochs=20,
        batch_size=2,
        learning_rate=0.1,
        hidden_facts=0.2,
    ),
}
FAMILY = random_family(0)
HIDDEN = Fact(*FAMILY.grandparent[0][:1], "grandparent", FAMILY.grandparent[0][1])
KB = FAMILY.kb(("parent", "grandparent", "sister"), HIDDEN)
trained: dict[str, Model] = {}

methods = pytest.mark.parametrize("method", slow_but(["rules", "ctp", "complex"], CONFIGS | VARIANTS))


def brief(method: str) -> BaseConfig:
    """For trainings whose result need not be good."""
    config = (CONFIGS | VARIANTS)[method]
    return config.model_copy(update={"epochs": min(config.epochs, 6)})


def model_of(method: str) -> Model:
    if method not in trained:
        trained[method] = create_trainer((CONFIGS | VARIANTS)[method], KB, CPU).fit()
    return trained[method]


def ask(model: Model, *goals: Goal, **options: object) -> list[tuple[Answer, ...]]:
    questions = [dataclasses.replace(Question(goal), **options) for goal in goals]  # type: ignore[arg-type]
    answered = []
    for answers in model.answer(questions, Budget()):
        assert isinstance(answers, Answers)
        answered.append(answers.items)
    return answered


def test_every_registered_model_of_facts_is_tested_here() -> None:
    assert set(CONFIGS) == {method for kind, method in MODELS if kind == "facts"}


@pytest.mark.slow
@methods
@pytest.mark.parametrize("extra", [(), (Fact("new", "parent", FAMILY.parent[0][0]),)])
def test_a_fact_has_one_score_whichever_place_is_asked(method: str, extra: tuple[Fact, ...]) -> None:
    model = model_of(method)
    subject, _ = FAMILY.grandparent[1]
    everything = ask(model, Goal(subject, "grandparent", None), facts=extra, top_k=1000, proofs=0)[0]
    for answer in everything[::12]:
        s, p, o = answer.fact
        others = ask(model, Goal(s, p, o), Goal(None, p, o), Goal(s, None, o), facts=extra, top_k=1000, proofs=0)
        for answers in others:
            same = next(a for a in answers if a.fact == answer.fact)
            assert same.score == pytest.approx(answer.score, abs=1e-6)
    assert {a.fact.object for a in everything} == {*KB.entities, *(f.subject for f in extra)}


def some_facts(num_entities: int, num_predicates: int) -> FactIds:
    """Stated ones, random ones, and loops."""
    drawn = np.random.default_rng(0).integers(0, (num_entities, num_predicates, num_entities), size=(8, 3))
    loops = np.array([(0, 0, 0), (num_entities - 1, num_predicates - 1, num_entities - 1)])
    return np.concatenate([KB.splits["train"][::9], drawn, loops])


@pytest.mark.slow
@methods
@pytest.mark.parametrize("extra", [(), (Fact("new", "parent", FAMILY.parent[0][0]),)])
def test_all_modes_agree_on_the_logit_of_a_fact(method: str, extra: tuple[Fact, ...]) -> None:
    """(s, p, o), (s, p, ?), (?, p, o) and (s, ?, o), and many goals at once as one alone."""
    model, view = model_of(method), FactsView.of(KB, extra)
    assert isinstance(model, FactsModel)
    facts = some_facts(*view.sizes)
    rows = np.arange(len(facts))
    whole = model.logits(view, GoalIds.hiding(facts, None))
    assert whole.shape == (len(facts), 1)
    for place in Place:
        logits = model.logits(view, GoalIds.hiding(facts, place))
        assert logits.shape == (len(facts), view.sizes[place is Place.PREDICATE])
        assert logits[rows, facts[:, place]] == pytest.approx(whole[:, 0], abs=1e-6)
        assert model.logits(view, GoalIds.hiding(facts[-3:-2], place))[0] == pytest.approx(logits[-3], abs=1e-6)


@pytest.mark.slow
@methods
def test_ranking_scores_what_is_not_known_as_answers_do(method: str) -> None:
    model, view = model_of(method), FactsView.of(KB)
    assert isinstance(model, FactsModel)
    facts = some_facts(*view.sizes)
    for place in (Place.OBJECT, Place.SUBJECT):
        exact, ranked = (GoalIds.hiding(facts, place, for_ranking=flag) for flag in (False, True))
        new = ~view.known(exact.candidates(*view.sizes)).reshape(len(facts), -1)
        assert new.any()
        assert model.kb_logits(ranked)[new] == pytest.approx(model.kb_logits(exact)[new], abs=1e-5)


@methods
def test_scores_are_probabilities_in_falling_order(method: str) -> None:
    for answers in ask(
        model_of(method), Goal(None, "parent", FAMILY.parent[0][1]), Goal(FAMILY.parent[0][0], "parent", None)
    ):
        scores = [answer.score for answer in answers]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)


@methods
def test_known_facts_are_marked_and_can_be_left_out(method: str) -> None:
    model = model_of(method)
    goal = Goal(FAMILY.parent[0][0], "parent", None)
    (answers,) = ask(model, goal, top_k=1000, proofs=0)
    known = {answer.fact for answer in answers if answer.known}
    assert known == {Fact(a, "parent", b) for a, b in FAMILY.parent if a == goal.subject}
    (others,) = ask(model, goal, top_k=1000, proofs=0, exclude_known=True)
    assert [a.fact for a in others] == [a.fact for a in answers if a.fact not in known]
    assert len(ask(model, goal, top_k=2)[0]) == 2


@methods
def test_a_fact_of_the_question_with_an_unknown_predicate_is_ignored_with_a_warning(method: str) -> None:
    parent, child = FAMILY.parent[0]
    own = (Fact("nobody", "parent", parent),)
    goal = Goal(parent, "parent", None)
    questions = [Question(goal, facts=own), Question(goal, facts=(*own, Fact(child, "parrent", "nobody")))]
    without, answers = model_of(method).answer(questions, Budget())
    assert isinstance(without, Answers)
    assert isinstance(answers, Answers)
    assert answers.items == without.items
    [warning] = answers.warnings
    assert "'parrent' is unknown" in warning
    assert "'parent'" in warning
    assert without.warnings == ()


@methods
def test_bad_questions_get_errors_and_the_others_answers(method: str) -> None:
    person = FAMILY.parent[0][0]
    new = Fact("rick", "nephew", "morty")
    goals = [
        Question(Goal(None, "parent", None)),
        Question(Goal("founder", "parent", None)),
        Question(Goal(person, "parents", None)),
        Question(Goal(person, "parent", None), facts=(new,)),
        Question(Goal(person, "parent", None)),
    ]
    open_twice, entity, predicate, fact, fine = model_of(method).answer(goals, Budget())
    assert isinstance(open_twice, BadQuestion)
    assert isinstance(entity, UnknownSymbol)
    assert set(entity.suggestions) <= {"founder0", "founder1", "founder2", "founder3"}
    assert isinstance(predicate, UnknownSymbol)
    assert predicate.suggestions[0] == "parent"
    assert isinstance(fact, UnknownSymbol)
    assert isinstance(fine, Answers)


@methods
def test_time_that_ends_inside_a_question_leaves_the_ranking_and_the_first_proofs(method: str) -> None:
    question = Question(Goal(None, "parent", FAMILY.parent[0][1]), top_k=EXPLAINED_AT_ONCE + 5, proofs=2)
    whole, part = (model_of(method).answer([question], BudgetOfLooks(looks=looks))[0] for looks in (3, 2))
    assert isinstance(whole, Answers)
    assert isinstance(part, Answers)
    assert (whole.truncated, part.truncated) == (False, True)
    assert [a.fact for a in part.items] == [a.fact for a in whole.items]
    assert part.items[:EXPLAINED_AT_ONCE] == whole.items[:EXPLAINED_AT_ONCE]
    assert all(answer.proofs == () for answer in part.items[EXPLAINED_AT_ONCE:])


@methods
def test_an_expired_budget_says_so(method: str) -> None:
    (answers,) = model_of(method).answer([Question(Goal(None, "parent", FAMILY.parent[0][1]))], Budget(seconds=-1))
    assert isinstance(answers, Answers)
    assert answers.truncated


@pytest.mark.slow
@methods
def test_a_saved_model_answers_the_same(method: str) -> None:
    model = model_of(method)
    again = load_model(decode(encode(model.to_artifact())), CPU)
    assert parse_config("facts", again.config.model_dump()) == model.config
    goals = [Goal(*HIDDEN[:2], None), Goal(None, *HIDDEN[1:]), Goal(HIDDEN.subject, None, HIDDEN.object)]
    assert ask(again, *goals) == ask(model, *goals)
    assert again.rules() == model.rules()


@pytest.mark.slow
@methods
def test_training_again_gives_the_same_model_also_after_an_interruption(method: str) -> None:
    config = brief(method)
    straight = create_trainer(config, KB, CPU)
    interrupted = create_trainer(config, KB, CPU)
    for _ in range(3):
        interrupted.train_epoch()
    resumed = create_trainer(config, KB, CPU)
    resumed.restore(decode(encode(interrupted.checkpoint())))
    expected, found = straight.fit().to_artifact(), resumed.fit().to_artifact()
    assert expected.manifest == found.manifest
    assert all(torch.equal(tensor, found.tensors[name]) for name, tensor in expected.tensors.items())


@pytest.mark.slow
@methods
@pytest.mark.parametrize(
    "facts",
    [
        [("a", "p", "a")],
        [("a", "p", "b")],
        [("a", "p", "a"), ("b", "p", "b"), ("b", "q", "b")],
        [("a", "p", "b"), ("b", "p", "c"), ("a", "once", "c")],
    ],
    ids=["one entity", "one fact", "only loops", "a predicate with one fact"],
)
def test_odd_kbs_train_and_answer(method: str, facts: list[tuple[str, str, str]]) -> None:
    kb = FactsKB.from_facts({"train": [Fact(*f) for f in facts], "valid": [Fact("c", "p", "lonely")]})
    model = create_trainer(brief(method), kb, CPU).fit()
    for answers in ask(model, Goal("lonely", "p", None), Goal(None, "p", "a" if "a" in kb.entities else "c")):
        assert len(answers) == len(kb.entities)
        assert all(math.isfinite(answer.score) for answer in answers)
    model.rules()


@methods
def test_a_kb_that_states_everything_leaves_no_random_fact_to_calibrate_with(method: str) -> None:
    model = create_trainer(brief(method), FactsKB.from_facts({"train": [Fact("a", "p", "a")]}), CPU).fit()
    assert math.isfinite(ask(model, Goal("a", "p", None))[0][0].score)


@methods
def test_a_kb_without_training_facts_says_why_not(method: str) -> None:
    kb = FactsKB.from_facts({"train": []})
    with pytest.raises(DataError, match="nothing to learn from"):
        create_trainer((CONFIGS | VARIANTS)[method], kb, CPU)


@methods
def test_validation_facts_prove_nothing(method: str) -> None:
    """A fact of another split is known but no proof stands on it."""
    facts = {"train": [Fact("a", "p", "b")], "valid": [Fact("b", "p", "c")], "test": [Fact("c", "p", "d")]}
    model = create_trainer(brief(method), FactsKB.from_facts(facts), CPU).fit()
    for answers in ask(model, Goal("a", "p", None), Goal("b", "p", None), top_k=10):
        for answer in answers:
            assert all(fact == Fact("a", "p", "b") for proof in answer.proofs for fact in proof.facts)
    assert next(a.known for a in ask(model, Goal("c", "p", "d"))[0])
    assert not np.isnan(ask(model, Goal("c", "p", "d"))[0][0].score)


@methods
def test_a_probability_is_the_score_of_models_that_do_not_take_the_best_proof(method: str) -> None:
    model = model_of(method)
    assert isinstance(model, FactsModel)
    (answers,) = ask(model, Goal(FAMILY.grandparent[1][0], "grandparent", None), top_k=20, proofs=0)
    assert all(answer.probability is not None for answer in answers)
    if model.scoring != "best_proof":
        assert [answer.probability for answer in answers] == [answer.score for answer in answers]
    falling = [answer.probability or 0.0 for answer in answers]
    assert falling == sorted(falling, reverse=True)


@methods
def test_a_calibration_changes_no_order_and_is_saved(method: str) -> None:
    model = model_of(method)
    assert isinstance(model, FactsModel)
    assert model.calibration is not None
    goal = Goal(FAMILY.grandparent[1][0], "grandparent", None)
    (calibrated,) = ask(model, goal, top_k=100, proofs=0)
    loaded = load_model(model.to_artifact(), CPU)
    assert isinstance(loaded, FactsModel)
    (same,) = ask(loaded, goal, top_k=100, proofs=0)
    assert [answer.probability for answer in same] == pytest.approx([answer.probability for answer in calibrated])
    (raw,) = ask(loaded.calibrated_by(None), goal, top_k=100, proofs=0)
    assert [answer.fact for answer in raw] == [answer.fact for answer in calibrated]
    assert all(answer.probability is None for answer in raw)
