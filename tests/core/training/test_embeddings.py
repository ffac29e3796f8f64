"""The three kinds of questions an embedding is trained on."""

import torch

from ctp_core.models.factorisation import FACTORISATIONS
from ctp_core.training.questions import QuestionList

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


def test_a_fact_has_one_score_whether_its_object_or_its_predicate_is_asked() -> None:
    for name, factorisation in FACTORISATIONS.items():
        module = factorisation((4, 3), 5, torch.Generator().manual_seed(0), torch.device("cpu")).double()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
        subjects, objects = module.entities[[0, 1]], module.entities[[2, 3]]
        by_predicate = module.pairs(subjects, objects) @ module.predicates.T
        by_object = [(module.compose(subjects, module.predicates[[p, p]]) * objects).sum(-1) for p in range(3)]
        assert torch.allclose(by_predicate, torch.stack(by_object, 1)), name
