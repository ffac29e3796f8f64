"""The questions (entity, predicate or inverse, ?) that the facts of a KB answer."""

import torch
from jaxtyping import Int
from torch import Tensor

Ids = Int[Tensor, " row"]


class QuestionList:
    """Facts read both ways: one question each, or `grouped`, so that one with a hundred answers is scored once."""

    def __init__(self, facts: Int[Tensor, "fact 3"], num_predicates: int, *, grouped: bool) -> None:
        subject, predicate, object_ = facts.unbind(1)
        given, answers = torch.cat([subject, object_]), torch.cat([object_, subject])
        self._atoms = 2 * num_predicates
        keys = given * self._atoms + torch.cat([predicate, predicate + num_predicates])
        order = torch.argsort(keys, stable=True)
        self._answers = answers[order]
        self._keys, self._counts = keys[order], torch.ones_like(keys)
        if grouped:
            self._keys, self._counts = torch.unique_consecutive(keys[order], return_counts=True)
        self._starts = torch.cumsum(self._counts, 0) - self._counts

    def __len__(self) -> int:
        return len(self._keys)

    def appearances(self, num_entities: int) -> Ids:
        """In how many questions each entity stands, as what is given or as an answer."""
        given = torch.bincount(self._keys // self._atoms, minlength=num_entities)
        return given + torch.bincount(self._answers, minlength=num_entities)

    def of(self, chosen: Ids) -> tuple[Ids, Ids, Ids, Ids]:
        """(entity, atom) of each chosen question, then (question, answer) of each of their facts."""
        counts = self._counts[chosen]
        question = torch.repeat_interleave(torch.arange(len(chosen)), counts)
        first = self._starts[chosen] - (torch.cumsum(counts, 0) - counts)
        answer = self._answers[torch.arange(len(question)) + first[question]]
        return self._keys[chosen] // self._atoms, self._keys[chosen] % self._atoms, question, answer
