"""The evidence head on edge lists, in double precision: what answers and their proofs are read from."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from ctp_core.datasets.kb import FactIds
from ctp_core.provers.counting import UNARY
from ctp_core.provers.edge_list import EdgeList, Paths
from ctp_core.provers.evidence import EvidenceHead

Floats = NDArray[np.float64]
ATOMS_PER_PLACE = 6  # a body is decoded from the strongest atoms of each place


@dataclass(frozen=True)
class WeighedPaths:
    """Groundings of one template for given facts, with what each adds to the logit of its fact."""

    template: str
    fact: Int[np.ndarray, " path"]
    atoms: Int[np.ndarray, "path place"]
    stations: Int[np.ndarray, "path place+1"]  # the entities along the body atoms
    attentions: Float[np.ndarray, "path place"]  # of the reformulator that contributes most
    shares: Float[np.ndarray, " path"]
    bodies: list[tuple[int, ...]] | None = None  # what names the rule of each path, where its atoms do not

    def body(self, path: int) -> tuple[int, ...]:
        return tuple(self.atoms[path].tolist()) if self.bodies is None else self.bodies[path]


class EvidenceArrays:
    """attention[template] is [predicate, reformulator, place, atom], strength[template] [predicate, reformulator]."""

    def __init__(self, head: EvidenceHead) -> None:
        goals = torch.arange(head.num_predicates, device=head.bias.device)
        self.num_predicates = head.num_predicates
        self.attention: dict[str, Floats] = {t: _array(head.attention(t, goals)) for t in head.templates}
        self.strength: dict[str, Floats] = {t: _array(head.strength(t, goals)) for t in head.templates}
        self.bias, self.loop_bias = _array(head.bias), _array(head.loop_bias)

    def biases(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """The logit of a fact without any proof."""
        loops = facts[:, 0] == facts[:, 2]
        return np.asarray(self.bias[facts[:, 1]] + self.loop_bias[facts[:, 1]] * loops)

    def weigh(self, edges: EdgeList, facts: FactIds) -> list[WeighedPaths]:
        """All proofs of the facts, none by the fact itself; their shares and the biases add up to the logits."""
        return [self._weigh(template, edges, facts) for template in self.attention]

    def _weigh(self, template: str, edges: EdgeList, facts: FactIds) -> WeighedPaths:
        paths = provable_paths(edges, facts, template)
        attention, goal = self.attention[template], facts[paths.pair, 1]
        picked = [attention[goal, :, place, atom] for place, atom in enumerate(paths.atoms.T)]
        masses = picked[0].copy()  # [path, reformulator]
        for factor in picked[1:]:
            masses *= factor
        counts = _sum_by(paths.pair, masses, len(facts))  # [fact, reformulator]
        ratio = np.divide(saturate(counts, template), counts, where=counts > 0, out=np.zeros_like(counts))
        masses *= (self.strength[template][facts[:, 1]] * ratio)[paths.pair]
        shares, best = masses.sum(1), masses.argmax(1)
        attentions = np.stack([factor[np.arange(len(best)), best] for factor in picked], axis=1)
        kept = shares > 0  # the excluded identity proves nothing
        return WeighedPaths(
            template, paths.pair[kept], paths.atoms[kept], paths.stations[kept], attentions[kept], shares[kept]
        )

    def totals(self, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """The logit of each fact as the sum of its proofs' shares and its bias."""
        totals = self.biases(facts)
        for paths in self.weigh(edges, facts):
            totals += np.bincount(paths.fact, paths.shares, len(facts))
        return totals

    def reach(self, edges: EdgeList, predicate: int, start: int, *, forward: bool) -> Float[np.ndarray, " entity"]:
        """Logits of all objects of a subject, or of all subjects of an object, pushed along the edges."""
        total = self._pushed(edges, predicate, start, forward=forward)
        known = edges.neighbours(start, predicate if forward else predicate + self.num_predicates)
        facts = np.empty((len(known), 3), dtype=np.int64)
        facts[:, 0 if forward else 2], facts[:, 1], facts[:, 2 if forward else 0] = start, predicate, known
        total[known] = self.totals(edges, facts)  # a push cannot leave out the fact itself, so these are summed up
        return total

    def _pushed(self, edges: EdgeList, predicate: int, start: int, *, forward: bool) -> Float[np.ndarray, " entity"]:
        total = np.full(edges.num_entities, self.bias[predicate])
        total[start] += self.loop_bias[predicate]
        for template, attention in self.attention.items():
            places = attention[predicate]  # [reformulator, place, atom]
            if template in UNARY:
                counts = edges.degrees(places[:, 0])
            else:  # read from its end, a path is the same with places in reverse and every atom inverted
                turned = places if forward else np.roll(places[:, ::-1], self.num_predicates, axis=-1)
                counts = edges.push(start, turned)
            evidence = self.strength[template][predicate] @ saturate(counts, template)
            about_start = (template == "1X") == forward
            total += evidence[start] if template in UNARY and about_start else evidence
        return total

    def bodies(self, predicate: int) -> set[tuple[str, tuple[int, ...]]]:
        """(template, body) of the strongest atoms of each place of each reformulator."""
        found: set[tuple[str, tuple[int, ...]]] = set()
        for template, attention in self.attention.items():
            strongest = np.argsort(-attention[predicate], axis=-1, kind="stable")[..., :ATOMS_PER_PLACE]
            for places in strongest.tolist():
                found.update((template, body) for body in product(*places))
        return found - {("1", (predicate,))}

    def evidence(self, predicate: int, template: str, body: tuple[int, ...]) -> float:
        """What a single proof by this rule adds to the logit."""
        attention = self.attention[template][predicate]  # [reformulator, place, atom]
        mass = np.prod([attention[:, place, atom] for place, atom in enumerate(body)], axis=0)
        return float(self.strength[template][predicate] @ saturate(mass, template))


def provable_paths(edges: EdgeList, facts: FactIds, template: str) -> Paths:
    """The groundings of a template that do not use the fact they should prove."""
    paths = edges.paths(facts[:, 0], facts[:, 2], template)
    known = edges.states(facts)
    if not known.any():
        return paths
    suspect = np.flatnonzero(known[paths.pair])
    kept = np.ones(len(paths.pair), dtype=bool)
    kept[suspect] = ~uses_own(Paths(*(column[suspect] for column in paths)), facts, edges.num_predicates)
    return Paths(*(column[kept] for column in paths))


def uses_own(paths: Paths, facts: FactIds, num_predicates: int) -> NDArray[np.bool_]:
    """Which paths use the fact they should prove."""
    subject, predicate, object_ = (column[:, None] for column in facts[paths.pair].T)
    left, right = paths.stations[:, :-1], paths.stations[:, 1:]
    forward = (paths.atoms == predicate) & (left == subject) & (right == object_)
    backward = (paths.atoms == predicate + num_predicates) & (left == object_) & (right == subject)
    return np.asarray((forward | backward).any(1))


def saturate(counts: Floats, template: str) -> Floats:
    return counts if template == "1" else np.asarray(counts / (1 + counts))


def _array(tensor: Tensor) -> Floats:
    return tensor.detach().cpu().double().numpy()


def _sum_by(group: NDArray[np.int64], values: Floats, num_groups: int) -> Floats:
    """Sums the rows of `values` of each group: [group, reformulator]. Groups are in rising order."""
    sums = np.zeros((num_groups, values.shape[1]))
    if len(group):
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        sums[group[starts]] = np.add.reduceat(values, starts, axis=0)
    return sums
