"""Naive provers in plain Python: the paper's recursion and the tabled one, one pair and one number at a time."""

import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ctp_core.ctp_graphs.tabled import TabledTheory
from ctp_core.ctp_graphs.theory import FixedRule, Theory
from ctp_core.rules import Template
from ctp_core.select.registry import VARIANTS, select_class

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
        "max-lukasiewicz": lambda a, b: max(0.0, a + b - 1),
    }[name]
    total = scores[0]
    for score in scores[1:]:
        total = step(total, score)
    return total


def dot(left: list[float], right: list[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def softmax(logits: list[float]) -> list[float]:
    powers = [math.exp(logit) for logit in logits]
    return [power / sum(powers) for power in powers]


def mixed(weights: list[float], vectors: list[list[float]]) -> list[float]:
    return [dot(weights, list(column)) for column in zip(*vectors, strict=True)]


@dataclass(frozen=True)
class NaiveRule:
    """Made for one goal; `head` and `gate` are numbers, or None where the rule has none."""

    reversed: bool
    head: float | None
    gate: float | None
    body: list[list[float]]


class NaiveSelect:
    """Every `select` from its definition: of the code under test only the parameters are read."""

    def __init__(self, theory: Theory) -> None:
        self.theory, self.slope = theory, theory.kernel.slope
        self.options = theory.select.options
        self.variant = next(name for name in VARIANTS if type(theory.select) is select_class(name))
        self.parameters = {name: value.tolist() for name, value in theory.named_parameters()}
        self.known: list[list[float]] = self.parameters["vectors"]

    def kernel(self, left: list[float], right: list[float]) -> float:
        return math.exp(-self.slope * math.dist(left, right))

    def rules(self, goal: list[float]) -> list[NaiveRule]:
        listed = Counter(str(template) for template in self.options.templates if template.length)
        found = [self.rule(goal, text, number) for text, count in listed.items() for number in range(count)]
        if self.variant == "gntp" and found:
            heads = sorted((rule.head or 0.0 for rule in found), reverse=True)
            least = heads[min(self.options.top_k, len(heads)) - 1]
            found = [replace(rule, head=rule.head if (rule.head or 0.0) >= least else 0.0) for rule in found]
        return found + [self.fixed(goal, rule) for rule in self.theory.fixed]

    def fixed(self, goal: list[float], rule: FixedRule) -> NaiveRule:
        body = [self.known[predicate] for predicate in rule.body]
        return NaiveRule(rule.template.reversed, self.kernel(goal, self.known[rule.head]), rule.confidence, body)

    def rule(self, goal: list[float], text: str, number: int) -> NaiveRule:
        template, vectors = Template.parse(text), self.generated(goal, text, number)
        head = self.kernel(goal, vectors[-1]) if len(vectors) > template.length else None
        gate = None
        if self.options.gate:
            logit = dot(goal, self.of("gates", text)[number]) + self.of("gate_biases", text)[number]
            gate = 1 / (1 + math.exp(-logit))
        return NaiveRule(template.reversed, head, gate, vectors[: template.length])

    def of(self, name: str, text: str) -> Any:
        return self.parameters[f"select.{name}.{text}"]

    def generated(self, goal: list[float], text: str, number: int) -> list[list[float]]:
        """The vectors of the body, then that of the head where there is one."""
        length, dim = Template.parse(text).length, self.options.dim
        if self.variant in ("ntp", "gntp"):
            return [*self.of("bodies", text)[number], self.of("heads", text)[number]]
        columns = [list(column) for column in zip(*self.of("weights", text), strict=True)]
        if self.variant == "memory":
            chosen = columns[number * self.options.memory : (number + 1) * self.options.memory]
            row = mixed(softmax([dot(goal, c) for c in chosen]), self.of("memories", str(length)))
            return [row[place * dim : (place + 1) * dim] for place in range(length + self.options.head)]
        maps, width = length + self.options.head, dim if self.variant == "linear" else len(self.known)
        starts = [(number * maps + place) * width for place in range(maps)]
        products = [[dot(goal, column) for column in columns[start : start + width]] for start in starts]
        if self.variant == "attentive":
            return [mixed(softmax(logits), self.known) for logits in products]
        biases = self.of("biases", text)
        return [[y + biases[start + i] for i, y in enumerate(own)] for start, own in zip(starts, products, strict=True)]


class NaiveProver:
    """`or` and `and` of Algorithm 2 with crisp entities, by recursion over vectors."""

    def __init__(self, theory: Theory, edges: list[Edge], num_entities: int, semiring: str) -> None:
        self.select, self.edges, self.num_entities, self.semiring = NaiveSelect(theory), edges, num_entities, semiring
        self._or = cache(self._or_anew)

    def prove(self, vector: list[float], subject: int, object_: int, depth: int) -> float:
        return max(0.0, self._or(tuple(vector), subject, object_, depth))

    def _or_anew(self, goal: tuple[float, ...], subject: int, object_: int, depth: int) -> float:
        best, vector = NOT_PROVED, list(goal)
        for s, predicate, o in self.edges:
            if (s, o) == (subject, object_):
                best = max(best, self.select.kernel(vector, self.select.known[predicate]))
        if depth == 0:
            return best
        for rule in self.select.rules(vector):
            guards = [guard for guard in (rule.head, rule.gate) if guard is not None]
            if 0.0 in guards:
                continue  # a rule that is not selected proves nothing
            ends = (object_, subject) if rule.reversed else (subject, object_)
            for middle in itertools.product(range(self.num_entities), repeat=len(rule.body) - 1):
                best = max(best, self._and(rule.body, [ends[0], *middle, ends[1]], guards, depth))
        return best

    def _and(self, body: list[list[float]], path: list[int], guards: list[float], depth: int) -> float:
        scores = [fold(self.semiring, guards)] if guards else []
        for atom, start, end in zip(body, path[:-1], path[1:], strict=True):
            scores.append(self._or(tuple(atom), start, end, depth - 1))
            if scores[-1] == NOT_PROVED:
                return NOT_PROVED
        return fold(self.semiring, scores)


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
