"""The facts of a view as edges on a device, ready to be followed from many entities at once."""

from dataclasses import dataclass

import torch

from ctp_core.base.edges import EdgeList
from ctp_core.kb.knowledge_base import FactIds, fact_keys
from ctp_core.shapes import Float, Int, Tensor

ANSWERING = 0.5  # where between two neighbouring facts an even sample stands when a question is answered
HALVINGS = 24  # of the bound on an entity's edges: exact to a thousandth of a million


@dataclass(frozen=True)
class Edges:
    """Edges that some nodes follow: `source` is the place of each edge's node among these."""

    source: Int[Tensor, " edge"]
    edge: Int[Tensor, " edge"]


class Graph:
    """Each fact forwards and as the inverse of its predicate, sorted by (entity, atom)."""

    def __init__(self, facts: FactIds, num_entities: int, num_predicates: int, device: torch.device) -> None:
        self.num_entities, self.num_predicates, self.device = num_entities, num_predicates, device
        tail, head, atom, number = _both_ways(facts, num_predicates, device)
        order = torch.argsort((tail * (2 * num_predicates) + atom) * num_entities + head)
        self.tail, self.head, self.atom = tail[order], head[order], atom[order]
        self.fact = torch.from_numpy(fact_keys(facts, num_entities, num_predicates)).to(device)[number[order]]
        self._starts = torch.searchsorted(self.tail, torch.arange(num_entities + 1, device=device))
        # (atom, entity) -> the number of edges of this atom that lead to the entity: how common an answer it is.
        self._keys, self._counts = torch.unique(self.atom * num_entities + self.head, return_counts=True)

    @classmethod
    def of(cls, edges: EdgeList, device: torch.device) -> "Graph":
        return cls(edges.facts, edges.num_entities, edges.num_predicates, device)

    def follow(self, question: Int[Tensor, " node"], entity: Int[Tensor, " node"], most: int, phase: float) -> Edges:
        """The edges of all nodes, at most about `most` for each question; nodes are sorted by question.

        Where a question has more, entities with the most edges keep an even sample of them, sorted by atom as they
        are. `phase`, from 0 to 1, says where samples begin.
        """
        first = self._starts[entity]
        degree = self._starts[entity + 1] - first
        kept = torch.minimum(degree, _bounds(question, degree, most)[question])
        source = torch.repeat_interleave(torch.arange(len(entity), device=self.device), kept)
        place = torch.arange(len(source), device=self.device) - (torch.cumsum(kept, 0) - kept)[source]
        sampled = (place * degree[source] + (phase * degree[source]).long()) // kept[source]
        offset = torch.where(kept[source] == degree[source], place, sampled.clamp(max=degree[source] - 1))
        return Edges(source, first[source] + offset)

    def commonness(self, atoms: Int[Tensor, " question"]) -> Float[Tensor, "question entity"]:
        """log(1 + how many stated facts an entity answers such questions in)."""
        chosen, row = torch.unique(atoms, return_inverse=True)
        size = self.num_entities
        bounds = torch.searchsorted(self._keys, torch.stack([chosen, chosen + 1]) * size)
        table = torch.zeros(len(chosen), size, device=self.device)
        for index, (first, last) in enumerate(bounds.T.tolist()):
            table[index, self._keys[first:last] % size] = torch.log1p(self._counts[first:last].float())
        return table[row]

    def common(self, atoms: Int[Tensor, " fact"], entities: Int[Tensor, " fact"]) -> Int[Tensor, " fact"]:
        """How many stated facts each entity answers such questions in."""
        if not len(self._keys):
            return torch.zeros_like(atoms)
        wanted = atoms * self.num_entities + entities
        place = torch.searchsorted(self._keys, wanted).clamp(max=len(self._keys) - 1)
        return torch.where(self._keys[place] == wanted, self._counts[place], 0)


def _both_ways(facts: FactIds, num_predicates: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(tail, head, atom, number of the fact) of each edge."""
    subject, predicate, object_ = torch.from_numpy(facts).to(device).unbind(1)
    number = torch.arange(len(facts), device=device)
    return (
        torch.cat([subject, object_]),
        torch.cat([object_, subject]),
        torch.cat([predicate, predicate + num_predicates]),
        torch.cat([number, number]),
    )


def _bounds(question: Int[Tensor, " node"], degree: Int[Tensor, " node"], most: int) -> Int[Tensor, " question"]:
    """For each question, the largest number of edges of one entity with which it has at most `most` in all.

    At least 1: a question with more entities than `most` follows one edge of each.
    """
    size = int(question[-1]) + 1 if len(question) else 0

    def total(of_each: Tensor) -> Tensor:
        return torch.zeros(size, dtype=degree.dtype, device=degree.device).index_add_(0, question, of_each)

    low = torch.ones(size, dtype=degree.dtype, device=degree.device)
    high = torch.full_like(low, most)
    many = total(degree) > most
    if bool(many.any()):
        for _ in range(HALVINGS):
            middle = (low + high + 1) // 2
            fits = total(torch.minimum(degree, middle[question])) <= most
            low, high = torch.where(fits, middle, low), torch.where(fits, high, middle - 1)
            high = torch.maximum(low, high)
    return torch.where(many, low, int(degree.max()) + 1 if len(degree) else 1)
