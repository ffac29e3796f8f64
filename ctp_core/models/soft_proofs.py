"""Answers of the soft prover: scores of all pairs, proof trees and decoded rules."""

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
import torch
from jaxtyping import Float

from ctp_core.datasets.kb import FactsKB
from ctp_core.models.facts_model import FactsView
from ctp_core.models.soft_theory import MIN_HEAD, Shape, SoftTheory
from ctp_core.proofs import Proof, ProofNode, Unification
from ctp_core.provers.soft_entities import NO_FACT, TIMES, Floats, SoftFacts, SoftSearch, contract, predicate_tables
from ctp_core.rule_counts import with_counts
from ctp_core.rules import Rule, Template, make_rule
from ctp_core.symbols import Fact

Candidate = tuple[float, tuple[int, ...], tuple[int, ...]]  # distance, facts, stations


class SoftProver:
    """Over the facts of a KB, or of a KB and a question. An entity without a vector meets only itself."""

    def __init__(self, theory: SoftTheory, facts: SoftFacts, num_entities: int) -> None:
        self.theory, self.facts = theory, facts
        self._search = _extended_search(theory, facts, num_entities)
        self._times = TIMES[theory.config.semiring]
        with torch.no_grad():
            self._shapes = theory.shapes(torch.arange(len(theory.predicates), device=theory.predicates.device))
        self._nearest = predicate_tables(self._search, len(theory.predicates))
        self._tables: dict[int, Floats] = {}

    def table(self, predicate: int) -> Float[np.ndarray, "entity entity"]:
        """Scores of all pairs, computed when a predicate is first asked for."""
        if predicate not in self._tables:
            distances = [self._distances(shape, predicate, g) for shape, g in self._reformulators()]
            self._tables[predicate] = np.exp(-self.theory.config.slope * np.min(distances, axis=0))
        return self._tables[predicate]

    def _reformulators(self) -> Iterator[tuple[Shape, int]]:
        return ((shape, g) for shape in self._shapes for g in range(shape.bodies.shape[1]))

    def _distances(self, shape: Shape, predicate: int, reformulator: int) -> Floats:
        places = [self._atom_table(costs) for costs in shape.costs[predicate, reformulator]]
        total = places[0]
        for place in places[1:]:
            total = contract(total, place, self.theory.config.semiring)
        total = total.T if shape.template.reversed else total
        return self._times(total, np.asarray(self._head(shape, predicate, reformulator)))

    def _atom_table(self, costs: Floats) -> Floats:
        """T₀(v): the distance of every pair to the nearest fact, over all predicates."""
        best = np.full(self._nearest.shape[1:], np.inf)
        for cost, table in zip(costs, self._nearest, strict=True):
            np.minimum(best, self._search.join(np.asarray(cost, dtype=np.float64), table), out=best)
        return np.asarray(np.sqrt(best))

    def _head(self, shape: Shape, predicate: int, reformulator: int) -> float:
        """The distance of goal and head; 0 where the head is the goal itself."""
        if shape.heads is None:
            return 0.0
        return -math.log(max(MIN_HEAD, float(shape.heads[predicate, reformulator]))) / self.theory.config.slope

    # Proofs

    def proofs(self, view: FactsView, goal: list[int], num_proofs: int) -> tuple[Proof, ...]:
        """The best proofs, distinct by rule and facts; ties go to fewer facts, then text."""
        best: dict[tuple[str, tuple[Fact, ...]], Proof] = {}
        for shape, reformulator in self._reformulators():
            for _, facts, stations in self._candidates(shape, goal, reformulator, num_proofs):
                proof = self._proof(view, goal, (shape, reformulator), facts, stations)
                key = ("" if proof.tree.rule is None else proof.tree.rule.text, proof.facts)
                if key not in best or best[key].score < proof.score:
                    best[key] = proof
        order = sorted(best.values(), key=lambda proof: (-proof.score, len(proof.facts), proof.text))
        return tuple(order[:num_proofs])

    def _candidates(self, shape: Shape, goal: list[int], reformulator: int, wanted: int) -> list[Candidate]:
        """The `wanted` best choices of facts: stations in the order of their distance, until none can be better."""
        subject, predicate, object_ = goal
        ends = (object_, subject) if shape.template.reversed else (subject, object_)
        costs = shape.costs[predicate, reformulator]
        found: dict[tuple[int, ...], Candidate] = {}
        for bound, stations in self._paths(costs, ends):
            known = sorted(distance for distance, _, _ in found.values())
            if bound == math.inf or (len(known) >= wanted and bound >= known[wanted - 1]):
                break
            for distance, facts in self._choices(costs, stations, wanted):
                if facts not in found or distance < found[facts][0]:
                    found[facts] = (distance, facts, stations)
        return sorted(found.values())[:wanted]

    def _paths(self, costs: Floats, ends: tuple[int, int]) -> Iterator[tuple[float, tuple[int, ...]]]:
        """(distance, stations), best first: one path for each first middle entity."""
        left, right = ends
        tables = [self._atom_table(cost) for cost in costs]
        if len(tables) == 1:
            yield float(tables[0][left, right]), ends
            return
        onward, pointers = tables[-1][:, right], []  # the distance from each entity to the end
        for table in reversed(tables[1:-1]):
            steps = self._times(table, onward[None, :])
            pointers.append(steps.argmin(1))
            onward = steps.min(1)
        total = self._times(tables[0][left], onward)
        for first in np.argsort(total, kind="stable").tolist():
            path = [left, first]
            for pointer in reversed(pointers):
                path.append(int(pointer[path[-1]]))
            yield float(total[first]), (*path, right)

    def _choices(self, costs: Floats, stations: tuple[int, ...], wanted: int) -> list[tuple[float, tuple[int, ...]]]:
        """The best facts at every place of a path, combined: at most `wanted`."""
        places = []
        for place, cost in enumerate(costs):
            distances = self._fact_distances(cost, stations[place], stations[place + 1])
            nearest = np.argsort(distances, kind="stable")[:wanted]
            places.append([(float(distances[fact]), int(fact)) for fact in nearest if distances[fact] < math.inf])
        combined = []
        for chosen in product(*places):
            distance = chosen[0][0]
            for one, _ in chosen[1:]:
                distance = float(self._times(np.asarray(distance), np.asarray(one)))
            combined.append((distance, tuple(fact for _, fact in chosen)))
        return sorted(combined)[:wanted]

    def _fact_distances(self, costs: Floats, left: int, right: int) -> Floats:
        one = np.array([NO_FACT])
        squared = self._search.pair(costs[None], np.array([left]), np.array([right]), one)[0]
        return np.asarray(np.sqrt(squared.astype(np.float64)))

    def _proof(
        self,
        view: FactsView,
        goal: list[int],
        by: tuple[Shape, int],
        facts: tuple[int, ...],
        stations: tuple[int, ...],
    ) -> Proof:
        """Each leaf is a body atom and the fact it met; a proof by facts alone is such a leaf."""
        (shape, reformulator), predicate = by, goal[1]
        costs = shape.costs[predicate, reformulator]
        names = self._names(costs)
        leaves = []
        for place, fact in enumerate(facts):
            left, right = stations[place], stations[place + 1]
            distance = self._fact_distances(costs[place], left, right)[fact]
            score = math.exp(-self.theory.config.slope * float(distance))
            entities = view.entities.names
            atom = Fact(entities[left], view.predicates.names[names[place]], entities[right])
            leaves.append(self._leaf(view, atom, fact, score, approximate=costs[place].min() > 0))
        if shape is self._shapes[0] and self.theory.match_facts:
            return Proof(leaves[0])
        rule = self._rule(view.predicates.names, shape, predicate, reformulator)
        head = self._head_unification(shape, predicate, reformulator, rule)
        score = self._score(leaves, head)
        return Proof(ProofNode(view.fact(*goal), score, "rule", head, rule=rule, children=tuple(leaves)))

    def _leaf(self, view: FactsView, atom: Fact, fact: int, score: float, *, approximate: bool) -> ProofNode:
        stated = view.fact(*self.facts.facts[fact].tolist())
        met = Unification(str(atom), str(stated), score, approximate=bool(approximate))
        return ProofNode(atom, score, "fact", (met,), fact=stated)

    def _head_unification(self, shape: Shape, predicate: int, reformulator: int, rule: Rule) -> tuple[Unification, ...]:
        if shape.heads is None:
            return ()
        score = math.exp(-self.theory.config.slope * self._head(shape, predicate, reformulator))
        return (Unification(rule.head.predicate, "rule head", score, approximate=True),)

    def _score(self, leaves: list[ProofNode], head: tuple[Unification, ...]) -> float:
        parts = [unification.score for unification in head] + [leaf.score for leaf in leaves]
        return min(parts) if self.theory.config.semiring == "max-min" else math.prod(parts)

    # Rules

    def _names(self, costs: Floats) -> list[int]:
        """The known predicate nearest to the vector at each place."""
        return [int(cost.argmin()) for cost in costs]

    def _rule(self, predicates: tuple[str, ...], shape: Shape, predicate: int, reformulator: int) -> Rule:
        """Confidence: how near the generated vectors are to the predicates shown for them, in the model's ⊗."""
        costs = shape.costs[predicate, reformulator]
        body = tuple(predicates[name] for name in self._names(costs))
        distance = np.asarray(self._head(shape, predicate, reformulator))
        for cost in costs:
            distance = self._times(distance, np.sqrt(np.asarray(cost.min(), dtype=np.float64)))
        confidence = math.exp(-self.theory.config.slope * float(distance))
        return make_rule(predicates[predicate], shape.template, body, confidence, approximate=True)

    def rules(self, kb: FactsKB) -> list[Rule]:
        """One rule for each predicate and reformulator, each text once; p(X,Y) :- p(X,Y) says nothing."""
        best: dict[str, Rule] = {}
        learnt = self._shapes[1:] if self.theory.match_facts else self._shapes
        for shape in learnt:
            for predicate, g in product(range(len(kb.predicates)), range(shape.bodies.shape[1])):
                rule = self._rule(kb.predicates.names, shape, predicate, g)
                trivial = rule.template == str(Template(1)) and rule.body[0].predicate == rule.head.predicate
                if not trivial and (rule.text not in best or best[rule.text].confidence < rule.confidence):
                    best[rule.text] = rule
        counted = with_counts(best.values(), kb)
        return sorted(counted, key=lambda rule: (-rule.confidence, -(rule.precision or 0.0), rule.text))


def _extended_search(theory: SoftTheory, facts: SoftFacts, num_entities: int) -> SoftSearch:
    search = theory.search(facts)
    known = len(search.squared)
    if num_entities == known:
        return search
    squared = np.full((num_entities, num_entities), np.inf, dtype=search.squared.dtype)
    squared[:known, :known] = search.squared
    np.fill_diagonal(squared, 0)
    return SoftSearch(facts, squared, theory.config.unification)
