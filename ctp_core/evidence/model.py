"""What models that add evidence share: answers that show each proof's share, and rules with a confidence."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Protocol

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from ctp_core.base.edges import EdgeList
from ctp_core.base.facts_model import Explanation, FactsModel, FactsView, sigmoid
from ctp_core.evidence.proofs_arrays import WeighedPaths
from ctp_core.evidence.rules import chain_proof, chain_rule, constant_rule
from ctp_core.kb.knowledge_base import FactIds, FactsKB
from ctp_core.proofs import Proof
from ctp_core.rules import Body, Rule, Template, steps_of
from ctp_core.symbols import Fact

MIN_EVIDENCE = 0.05  # a rule whose proof moves the logit by less is not worth listing


class Arrays(Protocol):
    """Weighted rules in one form or another."""

    def biases(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """The logit of a fact without any proof."""

    def weigh(self, edges: EdgeList, facts: FactIds) -> list[WeighedPaths]:
        """All proofs of the facts that are walked, none by the fact itself; of these facts the shares and the biases
        add up to the logits."""

    def evidence(self, predicate: int, template: Template, body: tuple[int, ...]) -> float:
        """What a single proof by this rule adds to the logit."""

    def bodies(self, predicate: int, least: float) -> Iterable[tuple[Template, tuple[int, ...]]]:
        """(template, body) of the rules worth listing, of which a single proof adds at least `least` to the logit."""


class EvidenceModel(FactsModel):
    """Every proof adds its share to the logit."""

    def __init__(self, kb: FactsKB) -> None:
        self.kb = kb
        self._rules: dict[tuple[int, Template, tuple[int, ...]], Rule] = {}

    @property
    @abstractmethod
    def arrays(self) -> Arrays: ...

    @property
    def semiring(self) -> str:
        return "evidence"

    def biases(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """The logit of each fact without any proof."""
        return self.arrays.biases(facts)

    def explain(
        self, view: FactsView, facts: FactIds, logits: Float[np.ndarray, " fact"], num_proofs: int
    ) -> list[Explanation]:
        if num_proofs <= 0:
            return self._unexplained(facts, logits)
        weighed = self.arrays.weigh(view.edges, facts)
        proving = np.concatenate([paths.fact[paths.shares > 0] for paths in weighed])
        walked = min(paths.num_walked for paths in weighed)  # of the others nobody knows how many proofs there are
        counts = [*np.bincount(proving, minlength=len(facts))[:walked].tolist(), *[None] * (len(facts) - walked)]
        proofs = self._best_proofs(view, facts, weighed, num_proofs)
        explanations = []
        rows = zip(logits.tolist(), self.biases(facts).tolist(), counts, proofs, strict=True)
        for logit, bias, count, found in rows:
            shown = sum(proof.share or 0.0 for proof in found)
            parts = {"bias": bias, "shown": shown, "rest": logit - bias - shown, "num_proofs": count}
            explanations.append(Explanation(found, parts))
        return explanations

    def _unexplained(self, facts: FactIds, logits: Float[np.ndarray, " fact"]) -> list[Explanation]:
        """The parts of the score without any proof; who asks for none does not wait for them to be counted."""
        biases = self.biases(facts)
        rows = zip(biases.tolist(), (logits - biases).tolist(), strict=True)
        return [Explanation((), {"bias": bias, "shown": 0.0, "rest": rest, "num_proofs": None}) for bias, rest in rows]

    def _best_proofs(
        self, view: FactsView, facts: FactIds, weighed: list[WeighedPaths], num_proofs: int
    ) -> list[tuple[Proof, ...]]:
        """Chosen by share, fewer facts, then text, before any tree is built: ties are many, trees are dear."""
        starts = [np.searchsorted(paths.fact, np.arange(len(facts) + 1)) for paths in weighed]
        found = []
        for row, goal in enumerate(facts.tolist()):
            slices = [slice(bounds[row], bounds[row + 1]) for bounds in starts]
            shares = np.concatenate([paths.shares[part] for paths, part in zip(weighed, slices, strict=True)])
            threshold = _nth_largest(shares, num_proofs)
            chosen = []
            for paths, part in zip(weighed, slices, strict=True):
                for path in (part.start + np.flatnonzero(paths.shares[part] >= threshold)).tolist():
                    body = self._body(view, paths, path)
                    chosen.append((-float(paths.shares[path]), len(body), ", ".join(map(str, body)), paths, path, body))
            chosen.sort(key=lambda one: one[:3])
            found.append(tuple(self._proof(view, goal, *one[3:]) for one in chosen[:num_proofs]))
        return found

    def _body(self, view: FactsView, paths: WeighedPaths, path: int) -> tuple[Fact, ...]:
        stations = tuple(view.entities.names[entity] for entity in paths.stations[path].tolist())
        return Body(steps_of(self.kb.predicates.names, paths.atoms[path].tolist())).facts(stations)

    def _proof(
        self, view: FactsView, goal: list[int], paths: WeighedPaths, path: int, facts: tuple[Fact, ...]
    ) -> Proof:
        rule = self._rule(goal[1], paths.template, paths.body(path))
        tree = chain_proof(view.fact(*goal), rule, facts, paths.attentions(path))
        return Proof(tree, float(paths.shares[path]))

    def _rule(self, predicate: int, template: Template, body: tuple[int, ...]) -> Rule:
        key = (predicate, template, body)
        if key not in self._rules:
            self._rules[key] = self._named(predicate, template, body)
        return self._rules[key]

    def _named(self, predicate: int, template: Template, body: tuple[int, ...]) -> Rule:
        confidence = self.confidence(predicate, template, body)
        if template.constant:
            return constant_rule(self.kb, predicate, body, confidence)
        return chain_rule(self.kb.predicates.names, predicate, template, body, confidence)

    def confidence(self, predicate: int, template: Template, body: tuple[int, ...]) -> float:
        """The score of a fact with exactly one proof, by this rule; without offsets, at whose level one says little."""
        return sigmoid(
            float(self.arrays.biases(np.array([[0, predicate, 1]]))[0])
            + self.arrays.evidence(predicate, template, body)
        )

    def counts(self, predicate: int, template: Template, body: tuple[int, ...]) -> tuple[int, int]:
        """(support, how often the body holds)."""
        return self._kb_view.edges.counter.count(predicate, template, body)

    def rules(self) -> list[Rule]:
        """Rules whose body holds somewhere in the KB, by confidence, then precision.

        No proof adds more to a logit than a single proof by its rule would, so that in a model that lists all its
        strong rules every proof with a share of MIN_EVIDENCE or more cites a listed one.
        """
        listed = []
        for predicate in range(len(self.kb.predicates)):
            for template, body in self.arrays.bodies(predicate, MIN_EVIDENCE):
                counts = self.counts(predicate, template, body)
                if counts[1]:
                    listed.append(self._named(predicate, template, body).counted(*counts))
        return sorted(listed, key=lambda rule: (-rule.confidence, -(rule.precision or 0.0), rule.text))


def _nth_largest(shares: NDArray[np.float64], wanted: int) -> float:
    """Above 0: what adds nothing is no proof."""
    least = float(np.nextafter(0, 1))
    if len(shares) <= wanted:
        return least
    return max(least, float(np.partition(shares, len(shares) - wanted)[len(shares) - wanted]))
