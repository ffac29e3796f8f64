"""The soft prover on KBs too large for tables: what it finds among the nearest entities, and within what memory."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import torch

from ctp_core.artifact import decode, encode
from ctp_core.base import cost
from ctp_core.base.model import Answers, Budget, Question
from ctp_core.ctp_facts import neighbours
from ctp_core.ctp_facts.config import CtpFactsConfig
from ctp_core.ctp_facts.entities import SoftFacts
from ctp_core.ctp_facts.model import CtpFactsModel
from ctp_core.ctp_facts.nearest_loss import NearestRanking
from ctp_core.ctp_facts.neighbours import Neighbours, nearest_entities
from ctp_core.ctp_facts.provers import NearestProver, TableProver
from ctp_core.ctp_facts.theory import SoftTheory
from ctp_core.errors import ConfigError
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.registry import create_trainer, load_model
from ctp_core.symbols import Fact, Goal
from tests.core.base.test_facts_model import FAMILY, HIDDEN, KB, ask
from tests.core.ctp_facts.test_theory import recomputed

CPU = torch.device("cpu")
SMALL = {"templates": ("0", "1R", "2", "3"), "dim": 4, "neighbours": "nearest"}
STATED = np.unique(np.random.default_rng(2).integers((0, 0, 0), (9, 2, 9), size=(14, 3)), axis=0)
FACTS, SIZES = SoftFacts(STATED, 2), (9, 2)
PAIRS = np.array([(s, p) for s in range(SIZES[0]) for p in range(SIZES[1])])


def theory_of(nearest: int, **settings: object) -> SoftTheory:
    config = CtpFactsConfig(**{**SMALL, "nearest": nearest, **settings})  # type: ignore[arg-type]
    theory = SoftTheory(config, *SIZES, torch.Generator().manual_seed(5), CPU)
    found = nearest_entities(theory.entities.detach().numpy(), nearest)
    theory.nearest.copy_(torch.from_numpy(found))
    return theory


@torch.no_grad()
def scores(theory: SoftTheory, prover: type[NearestProver | TableProver]) -> np.ndarray:
    return prover(theory, FACTS, SIZES[0]).objects(PAIRS[:, 1], PAIRS[:, 0])


@pytest.mark.parametrize("select", ["linear", "attentive", "memory", "ntp", "gntp"])
@pytest.mark.parametrize("semiring", ["max-min", "max-product"])
@pytest.mark.parametrize("unification", ["concat", "per_symbol"])
def test_with_all_entities_near_the_search_is_exact(select: str, semiring: str, unification: str) -> None:
    theory = theory_of(SIZES[0], select=select, semiring=semiring, unification=unification, templates=("0", "1R", "2"))
    np.testing.assert_allclose(scores(theory, NearestProver), scores(theory, TableProver), atol=1e-6)


def test_with_fewer_near_no_score_rises_and_some_stay() -> None:
    exact = scores(theory_of(SIZES[0]), TableProver)
    before = exact + 1e-9
    for nearest in (6, 3, 1):
        found = scores(theory_of(nearest), NearestProver)
        assert (found <= before + 1e-9).all()
        before = found
    assert (found > 0).any()
    assert (np.abs(scores(theory_of(5), NearestProver) - exact) < 1e-6).any()


def test_both_directions_and_single_goals_agree() -> None:
    with torch.no_grad():
        prover = NearestProver(theory_of(5), FACTS, SIZES[0])
        everyone = np.arange(SIZES[0])
        for predicate in range(SIZES[1]):
            same = np.full(SIZES[0], predicate)
            by_subject, by_object = prover.objects(same, everyone), prover.subjects(same, everyone)
            np.testing.assert_allclose(by_subject, by_object.T, atol=1e-9)


def test_paths_looked_at_in_small_parts_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = scores(theory_of(5), NearestProver)
    monkeypatch.setattr("ctp_core.ctp_facts.reach.EXPANDED", 7)
    np.testing.assert_array_equal(scores(theory_of(5), NearestProver), whole)


def test_only_mutual_neighbours_meet_and_everyone_meets_itself() -> None:
    found = Neighbours.of(np.array([[0, 1], [1, 2], [2, 1], [3, -1]]), num_entities=5)
    pairs = set(zip(found.entities.tolist(), found.others.tolist(), strict=True))
    assert pairs == {(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (1, 2), (2, 1)}


def test_cells_around_centres_find_nearly_all_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.random.default_rng(0).normal(size=(4000, 4)).astype(np.float32)
    exact = nearest_entities(vectors, 5)
    monkeypatch.setattr(neighbours, "EXACT_UP_TO", 1000)
    found = nearest_entities(vectors, 5)
    shared = [len(set(a) & set(b)) for a, b in zip(exact.tolist(), found.tolist(), strict=True)]
    assert np.mean(shared) > 4.9


def test_the_loss_moves_the_facts_that_proofs_use_and_has_the_gradient_of_its_value() -> None:
    theory = theory_of(SIZES[0], templates=("0", "2"), nearest_every=1000).double()
    ranking, rows = NearestRanking(theory, FACTS), np.array([1, 6])
    value = ranking.loss(rows)
    value.backward()  # type: ignore[no-untyped-call]
    gradient = theory.entities.grad
    assert gradient is not None
    moved = set(gradient.abs().sum(1).nonzero().flatten().tolist())
    assert moved - set(FACTS.facts[rows][:, [0, 2]].ravel().tolist())
    entity, step = max(moved, key=lambda e: float(gradient[e].abs().max())), 1e-6
    axis = int(gradient[entity].abs().argmax())
    with torch.no_grad():
        theory.entities[entity, axis] += step
        ahead = ranking.loss(rows)
    assert (ahead - value).item() / step == pytest.approx(gradient[entity, axis].item(), rel=1e-3)


@pytest.fixture(scope="module")
def model() -> CtpFactsModel:
    config = CtpFactsConfig(**SMALL, nearest=8, loss="all", epochs=4, eval_every=2, entity_start="facts", batch_size=8)
    trained = create_trainer(config, KB, CPU).fit()
    assert isinstance(trained, CtpFactsModel)
    return trained


@pytest.mark.slow
def test_proofs_have_the_answers_score_and_every_node_that_of_its_parts(model: CtpFactsModel) -> None:
    proved = 0
    for answer in ask(model, Goal(*HIDDEN[:2], None), Goal(None, *HIDDEN[1:]), top_k=5)[0]:
        if answer.score:
            assert answer.proofs[0].score == pytest.approx(answer.score, rel=1e-9)
            proved += 1
        for proof in answer.proofs:
            assert proof.score == pytest.approx(recomputed(proof.tree), rel=1e-9)
            assert proof.score <= answer.score * (1 + 1e-9)
    assert proved


@pytest.mark.slow
@pytest.mark.parametrize("extra", [(), (Fact("new", "parent", FAMILY.parent[0][0]),)])
def test_a_fact_has_one_score_whichever_place_is_asked(model: CtpFactsModel, extra: tuple[Fact, ...]) -> None:
    subject, _ = FAMILY.grandparent[1]
    everything = ask(model, Goal(subject, "grandparent", None), facts=extra, top_k=1000, proofs=0)[0]
    for answer in everything[::6]:
        s, p, o = answer.fact
        for answers in ask(model, Goal(s, p, o), Goal(None, p, o), Goal(s, None, o), facts=extra, top_k=1000, proofs=0):
            assert next(a for a in answers if a.fact == answer.fact).score == pytest.approx(answer.score, abs=1e-9)


def test_a_loaded_model_answers_the_same(model: CtpFactsModel) -> None:
    again = load_model(decode(encode(model.to_artifact())), CPU)
    goal = Goal(*HIDDEN[:2], None)
    assert ask(again, goal) == ask(model, goal)


@pytest.mark.slow
def test_a_run_that_goes_on_from_its_checkpoint_learns_the_same() -> None:
    config = CtpFactsConfig(**SMALL, nearest=4, loss="all", epochs=4, nearest_every=3, eval_every=1, batch_size=8)
    whole, first, second = (create_trainer(config, KB, CPU) for _ in range(3))
    for _ in range(2):
        whole.train_epoch()
        first.train_epoch()
    second.restore(first.checkpoint())
    for _ in range(2):
        whole.train_epoch()
        second.train_epoch()
    ours, theirs = whole.checkpoint().tensors, second.checkpoint().tensors
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_auto_takes_tables_where_they_fit_and_the_nearest_where_not(monkeypatch: pytest.MonkeyPatch) -> None:
    config = CtpFactsConfig(templates=("0",), dim=4, epochs=1)
    assert create_trainer(config, KB, CPU).module.dense  # type: ignore[attr-defined]
    monkeypatch.setattr(cost, "MAX_CELLS", 100.0)
    assert not create_trainer(config, KB, CPU).module.dense  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="neighbours 'nearest'"):
        create_trainer(config.model_copy(update={"neighbours": "tables"}), KB, CPU)
    monkeypatch.setattr(cost, "MAX_EDGES", 100.0)
    with pytest.raises(ConfigError, match="lower `nearest`"):
        create_trainer(config, KB, CPU)


NUM_ENTITIES, NUM_FACTS, MAX_MB = 10_000, 20_000, 1500


@pytest.mark.slow
def test_ten_thousand_entities_train_and_answer_within_memory() -> None:
    """Tables would have 4e8 cells; a chain of teams makes the half of `wider` that is asked for provable.

    In a process of its own: what other tests took before does not count here.
    """
    with ProcessPoolExecutor(1, get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)) as alone:
        taken = alone.submit(bytes_to_train_and_answer).result()
    assert taken / 2**20 < MAX_MB


def bytes_to_train_and_answer() -> int:
    """Most memory that was used at once, beyond what was there before."""
    kb = medium_kb()
    config = CtpFactsConfig(
        templates=("0", "2"), dim=16, loss="all", neighbours="nearest", entity_start="facts", nearest=4, epochs=1
    )
    before = resident("VmRSS")
    trained = create_trainer(config.model_copy(update={"batch_size": 256, "eval_every": 10}), kb, CPU).fit()
    (answers,) = trained.answer([Question(Goal("e7", "in", None), top_k=5)], Budget())
    assert isinstance(answers, Answers)
    assert len(answers.items) == 5
    assert answers.items[0].proofs
    return resident("VmHWM") - before


def resident(which: str) -> int:
    """Bytes: VmRSS now, VmHWM at most so far."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(which))
    return 1024 * int(line.split()[1])


def medium_kb() -> FactsKB:
    """Two predicates: members in groups, groups in wider ones; and members in the wider ones, in part."""
    groups, wider = NUM_ENTITIES // 10, NUM_ENTITIES // 100
    facts = [Fact(f"e{i}", "in", f"e{i % groups}") for i in range(groups, NUM_ENTITIES)]
    facts += [Fact(f"e{g}", "in", f"e{g % wider}") for g in range(wider, groups)]
    facts += [Fact(f"e{i}", "near", f"e{(i * 7) % NUM_ENTITIES}") for i in range(NUM_ENTITIES)]
    return FactsKB.from_facts({"train": facts[:NUM_FACTS]})
