"""Naive provers in plain Python: the paper's recursion and the tabled one, one pair and one number at a time."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from ctp_core.provers.tabled import TabledTheory
from ctp_core.provers.theory import Theory

NOT_PROVED = float("-inf")

Edge = tuple[int, int, int]  # subject, predicate, object


def fold(name: str, scores: list[float]) -> float:
    """⊗ from left to right; what is not proved makes the whole not proved."""
    if NOT_PROVED in scores:
        return NOT_PROVED
    step: Callable[[float, float], float] = {
        "max-min": min,
        "max-product": lambda a, b: a * b,
        "max-mean": lambda a, b: (a + b) / 2,
    }[name]
    total = scores[0]
    for score in scores[1:]:
        total = step(total, score)
    return total


@dataclass
class NaiveProver:
    """`or` and `and` of Algorithm 2 with crisp entities, by recursion over vectors."""

    theory: Theory
    edges: list[Edge]
    num_entities: int
    semiring: str

    def kernel(self, left: list[float], right: list[float]) -> float:
        return math.exp(-self.theory.kernel.slope * math.dist(left, right))

    def prove(self, vector: list[float], subject: int, object_: int, depth: int) -> float:
        return max(0.0, self._or(vector, subject, object_, depth))

    def _or(self, vector: list[float], subject: int, object_: int, depth: int) -> float:
        best = NOT_PROVED
        for s, predicate, o in self.edges:
            if (s, o) == (subject, object_):
                best = max(best, self.kernel(vector, self.theory.vectors[predicate].tolist()))
        if depth == 0:
            return best
        for reversed_, guards, body in self.rules(vector):
            ends = (object_, subject) if reversed_ else (subject, object_)
            for middle in itertools.product(range(self.num_entities), repeat=len(body) - 1):
                best = max(best, self._and(body, [ends[0], *middle, ends[1]], guards, depth))
        return best

    def _and(self, body: list[list[float]], path: list[int], guards: list[float], depth: int) -> float:
        scores = list(guards)
        for atom, start, end in zip(body, path[:-1], path[1:], strict=True):
            score = self._or(atom, start, end, depth - 1)
            if score == NOT_PROVED:
                return NOT_PROVED
            scores.append(score)
        return fold(self.semiring, scores)

    def rules(self, vector: list[float]) -> list[tuple[bool, list[float], list[list[float]]]]:
        """(reversed, head and gate, body) of every rule that `select` makes for this goal."""
        goal = torch.tensor([vector], dtype=self.theory.vectors.dtype)
        found = []
        for expansion in self.theory.expand(goal):
            for reformulator in range(expansion.bodies.shape[1]):
                guards = [p[0, reformulator].item() for p in (expansion.heads, expansion.gates) if p is not None]
                if self.semiring != "max-mean" or 0.0 not in guards:
                    combined = [fold(self.semiring, guards)] if guards else []
                    found.append((expansion.template.reversed, combined, expansion.bodies[0, reformulator].tolist()))
        return found


@dataclass
class NaiveTabled:
    """The tabled recursion over known predicates, one derivation at a time."""

    theory: TabledTheory
    edges: list[Edge]
    num_entities: int
    semiring: str

    def prove(self, predicate: int, subject: int, object_: int, depth: int) -> float:
        best = max(0.0, self._or(predicate, subject, object_, depth))
        if self.theory.goals is not None:
            for s, stated, o in self.edges:
                if (s, o) == (subject, object_):
                    best = max(best, self.theory.goals[stated, predicate].item())
        return best

    def _or(self, predicate: int, subject: int, object_: int, depth: int) -> float:
        best = 1.0 if (subject, predicate, object_) in self.edges else NOT_PROVED
        if depth == 0:
            return best
        for rules in self.theory.rules:
            count = self.theory.num_predicates
            ends = (object_, subject) if rules.template.reversed else (subject, object_)
            middles = itertools.product(range(self.num_entities), repeat=rules.template.length - 1)
            for g, middle in itertools.product(range(rules.places[0].shape[1] // count), list(middles)):
                path = [ends[0], *middle, ends[1]]
                scores = [] if rules.guard is None else [rules.guard[g, predicate].item()]
                for place, start, end in zip(rules.places, path[:-1], path[1:], strict=True):
                    column = place[:, g * count + predicate].tolist()
                    atoms = [
                        fold(self.semiring, [unify, self._or(other, start, end, depth - 1)])
                        for other, unify in enumerate(column)
                    ]
                    scores.append(max(atoms))
                    if scores[-1] == NOT_PROVED:
                        break
                best = max(best, fold(self.semiring, scores))
        return best
