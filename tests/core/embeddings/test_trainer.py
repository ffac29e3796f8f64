"""How an embedding is trained: its questions, its rivals and its loss."""

import pytest
import torch

from ctp_core.base.training_loop import constant_then_falling
from ctp_core.embeddings.config import ComplexConfig
from ctp_core.embeddings.factorisations import FACTORISATIONS
from ctp_core.embeddings.trainer import EmbeddingTrainer, QuestionList, log_partition
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.symbols import Fact

FACTS = torch.tensor([[0, 0, 1], [0, 0, 2], [1, 1, 2]])


def listed(questions: QuestionList) -> dict[tuple[int, int], set[int]]:
    entity, atom, question, answer = questions.of(torch.arange(len(questions)))
    found: dict[tuple[int, int], set[int]] = {}
    for which, one in zip(question.tolist(), answer.tolist(), strict=True):
        found.setdefault((int(entity[which]), int(atom[which])), set()).add(one)
    return found


def test_questions_are_the_same_grouped_or_not() -> None:
    expected = {(0, 0): {1, 2}, (1, 2): {0}, (2, 2): {0}, (1, 1): {2}, (2, 3): {1}}
    assert listed(QuestionList(FACTS, 2, grouped=True)) == expected
    assert listed(QuestionList(FACTS, 2, grouped=False)) == expected
    assert len(QuestionList(FACTS, 2, grouped=True)) == 5
    assert len(QuestionList(FACTS, 2, grouped=False)) == 6


def test_a_question_chosen_alone_has_its_own_answers() -> None:
    questions = QuestionList(FACTS, 2, grouped=True)
    for index in range(len(questions)):
        entity, atom, _, answers = questions.of(torch.tensor([index]))
        assert set(answers.tolist()) == listed(questions)[(int(entity), int(atom))]


def test_an_entity_appears_where_it_is_given_and_where_it_is_an_answer() -> None:
    assert QuestionList(FACTS, 2, grouped=True).appearances(4).tolist() == [3, 4, 4, 0]
    assert QuestionList(FACTS, 2, grouped=False).appearances(4).tolist() == [4, 4, 4, 0]


def test_a_fact_has_one_score_whether_its_object_or_its_predicate_is_asked() -> None:
    for name, factorisation in FACTORISATIONS.items():
        module = factorisation((4, 3), 6, torch.Generator().manual_seed(0), torch.device("cpu")).double()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
        subjects, objects = module.entities[[0, 1]], module.entities[[2, 3]]
        by_predicate = module.pairs(subjects, objects) @ module.predicates.T
        by_object = [(module.compose(subjects, module.predicates[[p, p]]) * objects).sum(-1) for p in range(3)]
        assert torch.allclose(by_predicate, torch.stack(by_object, 1)), name


def ring(size: int) -> FactsKB:
    facts = [Fact(f"e{index}", "next", f"e{(index + 1) % size}") for index in range(size)]
    return FactsKB.from_facts({"train": facts})


def trained(negatives: int | None) -> EmbeddingTrainer:
    """After one step on the first two questions; the rivals are drawn from 30 entities."""
    trainer = EmbeddingTrainer(
        ComplexConfig(rank=4, grouped=True, reciprocal=False, negatives=negatives), ring(30), torch.device("cpu")
    )
    trainer.step(torch.arange(2), 0.1)
    return trainer


def test_a_step_with_sampled_rivals_touches_nobody_else() -> None:
    before = trained(None).module  # moves everybody
    initial = EmbeddingTrainer(ComplexConfig(rank=4), ring(30), torch.device("cpu")).module
    sampled = trained(3).module
    moved = (sampled.entities != initial.entities).any(1)
    assert 3 <= int(moved.sum()) <= 9
    assert bool((before.entities != initial.entities).any(1).all())


def test_a_step_in_which_all_rivals_are_drawn_is_the_step_against_everybody() -> None:
    sampled, everybody = trained(2000).module, trained(None).module
    for ours, theirs in zip(sampled.parameters(), everybody.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)


@pytest.mark.slow
def test_a_weighed_rival_counts_on_average_as_if_it_were_always_there() -> None:
    config = ComplexConfig(rank=4, reciprocal=False, batch_size=3, negatives=4, weigh_negatives=True)
    trainer = EmbeddingTrainer(config, ring(12), torch.device("cpu"))
    counted, steps = torch.zeros(12), 0
    for _ in range(300):
        for batch in trainer.batches():
            entity, _, question, answer = trainer._questions.of(batch)
            rivals, _, where = trainer._rivals(entity, answer)
            assert rivals is not None
            weights = trainer._log_weights_of(rivals, question, where, len(batch))
            assert weights is not None
            assert (weights[question, where] == 0).all()  # an answer of the question itself
            counted[rivals] += trainer._log_weights[rivals].exp()
            steps += 1
    assert torch.allclose(counted / steps, torch.ones(12), atol=0.1)


def test_the_loss_counts_rivals_by_their_weights() -> None:
    sampled = {"batch_size": 3, "negatives": 4, "weigh_negatives": True}
    config = ComplexConfig(rank=4, reciprocal=False, predicate_weight=0, n3=0, **sampled)
    trainer, batch = EmbeddingTrainer(config, ring(12), torch.device("cpu")), torch.arange(3)
    before = trainer.generator.get_state()
    found = trainer.loss(batch)
    trainer.generator.set_state(before)
    entity, atom, question, answer = trainer._questions.of(batch)
    rivals, _, where = trainer._rivals(entity, answer)
    weights = trainer._log_weights_of(rivals, question, where, len(batch))
    queries, _ = trainer.module.queries(trainer.module.entities[entity], atom, tied=True)
    logits = queries @ trainer.module.entities[rivals].T + weights
    assert found.item() == pytest.approx(torch.nn.functional.cross_entropy(logits, where).item(), rel=1e-6)


def test_the_loss_is_that_of_the_table_of_all_logits() -> None:
    config = ComplexConfig(rank=4, grouped=True, reciprocal=False, predicate_weight=0, n3=0)
    trainer = EmbeddingTrainer(config, ring(6), torch.device("cpu"))
    entity, atom, question, answer = trainer._questions.of(torch.arange(5))
    queries, _ = trainer.module.queries(trainer.module.entities[entity], atom, tied=True)
    expected = torch.nn.functional.cross_entropy((queries @ trainer.module.entities.T)[question], answer)
    assert trainer.loss(torch.arange(5)).item() == pytest.approx(expected.item(), rel=1e-6)


def test_the_rate_falls_to_nothing_in_the_share_of_steps_that_is_asked_for() -> None:
    rates = [constant_then_falling(step, 8, 0.5, 0.5) for step in range(9)]
    assert rates == [0.5, 0.5, 0.5, 0.5, 0.5, 0.375, 0.25, 0.125, 0]
    assert constant_then_falling(7, 8, 0.5, 0) == 0.5


@pytest.mark.parametrize("weighed", [False, True])
def test_the_log_partition_has_the_values_and_gradients_of_logsumexp_also_where_products_are_large(
    weighed: bool,
) -> None:
    generator = torch.Generator().manual_seed(0)
    queries = (30 * torch.randn(5, 3, generator=generator, dtype=torch.float64)).requires_grad_()
    candidates = (30 * torch.randn(7, 3, generator=generator, dtype=torch.float64)).requires_grad_()
    weights = torch.randn(5, generator=generator, dtype=torch.float64)
    log_weights = torch.randn(5, 7, generator=generator, dtype=torch.float64) if weighed else torch.zeros(5, 7)

    expected = torch.logsumexp(queries @ candidates.T + log_weights, 1)
    gradients = torch.autograd.grad((weights * expected).sum(), (queries, candidates))
    found = log_partition(queries, candidates, log_weights if weighed else None)

    assert torch.allclose(found, expected)
    for one, other in zip(torch.autograd.grad((weights * found).sum(), (queries, candidates)), gradients, strict=True):
        assert torch.allclose(one, other)
