"""The attention head on edge lists, in double precision: what answers and their proofs are read from."""

import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from ctp_core.base.edges import EdgeList
from ctp_core.evidence.attention_best import Known, best_proofs
from ctp_core.evidence.attention_head import AttentionHead, half_count
from ctp_core.evidence.merging import merged
from ctp_core.evidence.proofs import WeighedPaths, own_paths
from ctp_core.kb.knowledge_base import FactIds
from ctp_core.rules import Template

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
MANY_WALKS = 2e4  # by one template for all facts together: of more, only the best proofs are looked for
KEPT_WALKS = 2e6  # numbers of paths from entities: 16 MB
MAX_REACHED = 5e6  # numbers of paths to entities, at a time: 40 MB
MAX_WALKS = 2e6  # by one template for all facts together: about two seconds and half a gigabyte


class AttentionArrays:
    """attention[template] is [predicate, reformulator, place, atom], strength[template] [predicate, reformulator]."""

    def __init__(self, head: AttentionHead) -> None:
        goals = torch.arange(head.num_predicates, device=head.bias.device)
        self.num_predicates, self._by_share = head.num_predicates, head.counting == "share"
        self.attention: dict[Template, Floats] = {t: _array(head.attention(t, goals)) for t in head.templates}
        self.heaviest: dict[Template, Floats] = {t: a.max(3).prod(2) for t, a in self.attention.items()}
        # The same as [predicate, place, atom, reformulator]: what a path picks lies side by side.
        self._rows = {t: np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for t, a in self.attention.items()}
        self.strength: dict[Template, Floats] = {t: _array(head.strength(t, goals)) for t in head.templates}
        self._half = {template: half_count(template, head.saturation) for template in head.templates}
        self.bias, self.loop_bias = _array(head.bias), _array(head.loop_bias)
        self._kept_walks: WeakKeyDictionary[EdgeList, OrderedDict[tuple[Template, int], Floats]] = WeakKeyDictionary()

    def biases(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """The logit of a fact without any proof."""
        loops = facts[:, 0] == facts[:, 2]
        return np.asarray(self.bias[facts[:, 1]] + self.loop_bias[facts[:, 1]] * loops)

    def priors(self, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """What rules about one entity alone add to the logits."""
        found = np.zeros(len(facts))
        for template in self.attention:
            if template.unary:
                paths = self._weigh(template, edges, facts, MAX_WALKS)
                found += np.bincount(paths.fact, paths.shares, len(facts))
        return found

    def weigh(
        self, edges: EdgeList, facts: FactIds, wanted: int | None = None, mined: Sequence[WeighedPaths] = ()
    ) -> list[WeighedPaths]:
        """All proofs of the facts that are walked, none by the fact itself; of these facts the shares, the biases and
        the priors add up to the logits. Where proofs are many, only the `wanted` best ones are looked for.

        `mined` are proofs by other rules: what they add to the same proofs is added here, and the others come last.
        """
        found, rest, known = list[WeighedPaths](), list(mined), None
        for template in self.attention:
            if template.unary:
                continue
            many = template.length > 1 and self._walks(template, edges, facts).sum() > MANY_WALKS
            if wanted is not None and many:
                known = known or Known([*found, *rest], len(facts), wanted)
                attended = best_proofs(self, template, edges, facts, known)
                known = None if any(len(paths.fact) for paths in attended) else known
            else:
                known, attended = None, [self._weigh(template, edges, facts, MAX_WALKS)]
            attended, rest = merged(attended, rest)
            found += attended
        return [*found, *rest]

    def ratios(self, template: Template, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, "fact reformulator"]:
        """h(c) / c of each fact, c counted without listing the paths."""
        if self._counted_by_share(template):
            return np.asarray(1 / (1 + self._totals_from(template, edges, facts)))
        return self._per_path(self._counts(template, edges, facts), template)

    def _per_path(self, counts: Floats, template: Template) -> Floats:
        """h(c) / c, 0 where there is no path."""
        none = np.zeros(counts.shape)
        return np.asarray(np.divide(self._saturate(counts, template), counts, where=counts > 0, out=none))

    def _counts(self, template: Template, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, "fact reformulator"]:
        """Weighted numbers of paths, none by the fact itself: half of the body is pushed from either end."""
        half, counts = (template.length + 1) // 2, np.empty((len(facts), self.strength[template].shape[1]))
        for rows, places in self._alike(template, edges, facts):
            turned = np.roll(places[:, half:][:, ::-1], self.num_predicates, axis=-1)
            begun, ended = (edges.at(facts[rows, place]) for place in (0, 2))
            there = edges.push(begun, places[:, :half], facts[rows])
            counts[rows] = (there * edges.push(ended, turned, facts[rows])).sum(2)
        return counts

    def _alike(self, template: Template, edges: EdgeList, facts: FactIds) -> Iterator[tuple[Ids, Floats]]:
        """(rows, attention) of facts of one predicate, so many at a time that what is reached from them has room."""
        each = max(1, int(MAX_REACHED // (self.strength[template].shape[1] * max(1, edges.num_entities))))
        for predicate in np.unique(facts[:, 1]).tolist():
            rows = np.flatnonzero(facts[:, 1] == predicate)
            for some in np.split(rows, range(each, len(rows), each)):
                yield some, self.attention[template][predicate]

    def _walks(self, template: Template, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, " fact"]:
        return np.asarray(edges.num_walks(template.length - 1)[facts[:, 0]])

    def _num_walked(self, template: Template, edges: EdgeList, facts: FactIds, most: float) -> int:
        """The first facts of which all groundings of a template are found by `most` walks."""
        if template.unary:
            return len(facts)
        return int(np.searchsorted(np.cumsum(self._walks(template, edges, facts)), most, side="right"))

    def _weigh(self, template: Template, edges: EdgeList, facts: FactIds, most: float) -> WeighedPaths:
        num_walked = self._num_walked(template, edges, facts, most)
        walked = facts[:num_walked]
        paths = edges.paths(walked[:, 0], walked[:, 2], template)
        factors = self.factors(template, facts[paths.pair, 1], paths.atoms)
        masses = math.prod(factors[1:], start=factors[0])
        masses[own_paths(edges, facts, paths)] = 0
        weights = self.strength[template][facts[:, 1]]
        if self._counted_by_share(template):
            weights[:num_walked] /= 1 + self._totals_from(template, edges, walked)
        else:
            counts = [np.bincount(paths.pair, column, num_walked) for column in masses.T]
            weights[:num_walked] *= self._per_path(np.stack(counts, axis=1), template)
        shares = np.einsum("pg,pg->p", masses, weights[paths.pair])
        return WeighedPaths(template, paths.pair, paths.atoms, paths.stations, shares, factors, weights, num_walked)

    def _counted_by_share(self, template: Template) -> bool:
        """One atom is one fact, and counts as it is."""
        return self._by_share and template.length > 1

    def _totals_from(
        self, template: Template, edges: EdgeList, facts: FactIds
    ) -> Float[np.ndarray, "fact reformulator"]:
        """Weighted numbers of paths from the facts' subjects to anything, none by the fact itself."""
        totals, stated = np.empty((len(facts), self.strength[template].shape[1])), edges.states(facts)
        for predicate in np.unique(facts[~stated, 1]).tolist():
            rows = np.flatnonzero(~stated & (facts[:, 1] == predicate))
            totals[rows] = self._walks_from(template, edges, predicate)[:, facts[rows, 0]].T
        known = np.flatnonzero(stated)
        for rows, places in self._alike(template, edges, facts[known]):
            some = facts[known[rows]]
            totals[known[rows]] = edges.push(edges.at(some[:, 0]), places, some).sum(2)
        return totals

    def _walks_from(
        self, template: Template, edges: EdgeList, predicate: int
    ) -> Float[np.ndarray, "reformulator entity"]:
        """Weighted numbers of paths from every entity to anything; those used last are kept."""
        kept = self._kept_walks.setdefault(edges, OrderedDict())
        if (template, predicate) not in kept:
            everywhere = np.ones((1, edges.num_entities))
            kept[template, predicate] = edges.push(everywhere, self._turned(template, predicate))[0]
            while len(kept) > 1 and sum(walks.size for walks in kept.values()) > KEPT_WALKS:
                kept.popitem(last=False)
        kept.move_to_end((template, predicate))
        return kept[template, predicate]

    def _saturate(self, counts: Floats, template: Template) -> Floats:
        """h: how much evidence a weighted number of groundings is."""
        half = self._half[template]
        return counts if half is None else np.asarray(counts / (half + counts))

    def factors(
        self, template: Template, goal: Int[np.ndarray, " path"], atoms: Int[np.ndarray, "path place"]
    ) -> list[Floats]:
        """For each place, what the reformulators of a goal attend to the atom of each path: [path, reformulator]."""
        rows = self._rows[template]
        _, num_places, num_atoms, num_reformulators = rows.shape
        flat = rows.reshape(-1, num_reformulators)
        places = ((goal * num_places + place) * num_atoms + atom for place, atom in enumerate(atoms.T))
        return [flat.take(place, axis=0) for place in places]

    def totals(self, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """The logit of each fact as the sum of its proofs' shares and its bias."""
        totals = self.biases(facts)
        for template in self.attention:
            # More walks than there are edges take longer than one push along all of them, which shares need anyway.
            most = 0.0 if self._counted_by_share(template) else min(MAX_WALKS, len(facts) * len(edges.tail))
            paths = self._weigh(template, edges, facts, most)
            totals += np.bincount(paths.fact, paths.shares, len(facts))
            totals[paths.num_walked :] += self._pushed_to(template, edges, facts[paths.num_walked :])
        return totals

    def _pushed_to(self, template: Template, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """What all proofs of each fact by one template add, without walking them one by one."""
        found, by_share = np.empty(len(facts)), self._counted_by_share(template)
        for rows, places in self._alike(template, edges, facts):
            reached = edges.push(edges.at(facts[rows, 0]), places, facts[rows])
            counts = np.take_along_axis(reached, facts[rows, 2][:, None, None], axis=2)[..., 0]
            evidence = counts / (1 + reached.sum(2)) if by_share else self._saturate(counts, template)
            found[rows] = evidence @ self.strength[template][facts[rows[0], 1]]
        return found

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
            if template.unary:
                saturated = self._saturate(edges.degrees(places[:, 0]), template)
            else:
                saturated = self._reached(template, edges, predicate, start, forward=forward)
            evidence = self.strength[template][predicate] @ saturated
            about_start = template.about_subject == forward
            total += evidence[start] if template.unary and about_start else evidence
        return total

    def _reached(
        self, template: Template, edges: EdgeList, predicate: int, start: int, *, forward: bool
    ) -> Float[np.ndarray, "reformulator entity"]:
        """h of every entity that paths from `start` lead to, which is their subject or, turned round, their object."""
        places = self.attention[template][predicate] if forward else self._turned(template, predicate)
        counts = edges.push(edges.at(np.array([start])), places)[0]
        if not self._counted_by_share(template):
            return self._saturate(counts, template)
        if forward:
            return np.asarray(counts / (1 + counts.sum(1, keepdims=True)))
        return np.asarray(counts / (1 + self._walks_from(template, edges, predicate)))

    def _turned(self, template: Template, predicate: int) -> Float[np.ndarray, "reformulator place atom"]:
        """What paths are attended to that are read from their end: places in reverse, with every atom inverted."""
        return np.roll(self.attention[template][predicate][:, ::-1], self.num_predicates, axis=-1)

    def bodies(self, predicate: int, least: float) -> set[tuple[Template, tuple[int, ...]]]:
        """(template, body) of all rules of which a single proof adds at least `least` to the logit."""
        found = {(t, body) for t in self.attention for body in self._strong_bodies(predicate, t, least)}
        return found - {(Template(1), (predicate,))}

    def _strong_bodies(self, predicate: int, template: Template, least: float) -> list[tuple[int, ...]]:
        """Grown atom by atom: a body is strong only if one reformulator alone brings its part of `least`."""
        attention, strength = self.attention[template][predicate], self.strength[template][predicate]
        grown = []
        for places, weight in zip(attention, strength.tolist(), strict=True):
            masses, bodies = np.ones(1), np.zeros((1, 0), dtype=np.int64)
            for place in places:
                longer = masses[:, None] * place  # [body, atom]
                body, atom = np.nonzero(weight * self._saturate(longer, template) >= least / len(strength))
                masses, bodies = longer[body, atom], np.column_stack([bodies[body], atom])
            grown.append(bodies)
        candidates = np.unique(np.concatenate(grown), axis=0)
        mass = math.prod(attention[:, place, atoms] for place, atoms in enumerate(candidates.T))
        strong = strength @ self._saturate(np.asarray(mass), template) >= least
        return [tuple(body) for body in candidates[strong].tolist()]

    def evidence(self, predicate: int, template: Template, body: tuple[int, ...]) -> float:
        """What a single proof by this rule adds to the logit."""
        attention = self.attention[template][predicate]  # [reformulator, place, atom]
        mass = np.prod([attention[:, place, atom] for place, atom in enumerate(body)], axis=0)
        return float(self.strength[template][predicate] @ self._saturate(mass, template))


def _array(tensor: Tensor) -> Floats:
    return tensor.detach().cpu().double().numpy()
