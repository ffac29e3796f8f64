"""What soft provers answer with, however they search: scores of open places, proof trees and decoded rules."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import product

import numpy as np
import torch
from jaxtyping import Float

from ctp_core.base.facts_model import FactsView
from ctp_core.base.rule_counts import with_counts
from ctp_core.ctp_facts.entities import JOINS, Ids, SoftFacts
from ctp_core.ctp_facts.pairs import Chain
from ctp_core.ctp_facts.plans import FACT
from ctp_core.ctp_facts.proofs import TreeWriter, rules_in
from ctp_core.ctp_facts.theory import SoftTheory
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.proofs import Proof
from ctp_core.rules import Rule, Step, each_once
from ctp_core.symbols import Fact

Candidate = tuple[float, tuple[int, ...], tuple[int, ...]]  # distance, facts, stations


class SoftAnswers(ABC):
    """Over the facts of a KB, or of a KB and a question. An entity without a vector meets only itself.

    In double precision, so that a score is its proof's.
    """

    def __init__(self, theory: SoftTheory, facts: SoftFacts) -> None:
        self.theory, self.facts = copy.deepcopy(theory).double().requires_grad_(False), facts
        self._slope, self._times = theory.config.slope, theory.distance_times.arrays
        self._join = JOINS[theory.config.unification]
        self._chains = self.theory.chains(torch.arange(len(theory.predicates), device=theory.predicates.device))
        self._writer = TreeWriter(self.theory)

    @abstractmethod
    def objects(self, predicates: Ids, subjects: Ids) -> Float[np.ndarray, "question entity"]:
        """Scores of everything in the open place."""

    @abstractmethod
    def subjects(self, predicates: Ids, objects: Ids) -> Float[np.ndarray, "question entity"]: ...

    @abstractmethod
    def _candidates(self, chain: Chain, goal: list[int], wanted: int) -> list[Candidate]:
        """The best choices of facts by one chain, at most `wanted`."""

    @abstractmethod
    def _gap(self, one: int, other: int) -> float:
        """Squared distance of two entities."""

    def _of(self, predicate: int) -> Iterator[Chain]:
        return (Chain(chains, predicate, number) for chains in self._chains for number in range(chains.width))

    def proofs(self, view: FactsView, goal: list[int], num_proofs: int) -> tuple[Proof, ...]:
        """The best proofs, distinct by rules and facts; ties go to fewer facts, then text."""
        best: dict[tuple[str, tuple[Fact, ...]], Proof] = {}
        for chain in self._of(goal[1]):
            for _, facts, stations in self._candidates(chain, goal, num_proofs):
                scores = self._leaf_scores(chain, facts, stations)
                tree = self._writer.tree(view, chain, stations, [self.facts.facts[f] for f in facts], scores)
                proof = Proof(tree)
                key = (rules_in(tree), proof.facts)
                if key not in best or best[key].score < proof.score:
                    best[key] = proof
        order = sorted(best.values(), key=lambda proof: (-proof.score, len(proof.facts), proof.text))
        return tuple(order[:num_proofs])

    def _leaf_scores(self, chain: Chain, facts: tuple[int, ...], stations: tuple[int, ...]) -> list[float]:
        found = []
        for place, (flip, fact) in enumerate(zip(chain.chains.plan.flips, facts, strict=True)):
            ends = stations[place : place + 2]
            subject, object_ = ends[::-1] if flip else ends
            stated = self.facts.facts[fact].tolist()
            met = self._join(self._gap(subject, stated[0]), self._gap(object_, stated[2]))
            found.append(math.exp(-self._slope * math.sqrt(self._join(chain.costs[place, stated[1]], met))))
        return found

    def rules(self, kb: FactsKB) -> list[Rule]:
        """One rule for each predicate and reformulator, each text once; p(X,Y) :- p(X,Y) says nothing."""
        found = []
        for chains in self._chains:
            if chains.plan != FACT and all(part == FACT for part in chains.plan.parts):
                for predicate, number in product(range(len(kb.predicates)), range(chains.width)):
                    found.append(self._writer.rule(kb.predicates.names, Chain(chains, predicate, number)))
        counted = with_counts(each_once(rule for rule in found if not _trivial(rule)), kb)
        return sorted(counted, key=lambda rule: (-rule.confidence, -(rule.precision or 0.0), rule.text))


def _trivial(rule: Rule) -> bool:
    return rule.body.steps == (Step(rule.predicate),)
