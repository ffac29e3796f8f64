"""What models that add evidence share: answers, which proofs.py explains, and rules with a confidence."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from jaxtyping import Float
from torch import Tensor

from ctp_core.artifact import Artifact
from ctp_core.base.calibration import Calibration
from ctp_core.base.edges import EdgeList
from ctp_core.base.facts_model import Explanation, FactsModel, FactsView
from ctp_core.base.goals import GoalIds
from ctp_core.base.model import Scoring
from ctp_core.base.progress import OnPart, unheard
from ctp_core.base.rule_counts import Counts, FactsCounter
from ctp_core.errors import ArtifactError
from ctp_core.evidence.proofs import WeighedPaths, count_proofs, explained, list_proofs, unexplained
from ctp_core.evidence.rules import chain_rule, constant_rule
from ctp_core.kb.knowledge_base import FactIds, FactsKB
from ctp_core.rules import Rule, Template, by_what_they_explain

MIN_EVIDENCE = 0.05  # a rule whose proof moves the logit by less is not worth listing
MOST_COUNTED = 2**53  # more cannot be computed with in floating point


class Arrays(Protocol):
    """Weighted rules in one form or another."""

    def biases(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """The logit of a fact without any proof and without `priors`."""

    def priors(self, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """What rules about one entity alone add to the logits: how common that entity is. They are not proofs."""

    def totals(self, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """The logits of facts."""

    def reach(self, edges: EdgeList, predicate: int, start: int, *, forward: bool) -> Float[np.ndarray, " entity"]:
        """The logits of all objects of a subject or, unless `forward`, of all subjects of an object."""

    def weigh(self, edges: EdgeList, facts: FactIds, wanted: int | None = None) -> list[WeighedPaths]:
        """All proofs of the facts that are walked, none by the fact itself; of these facts the shares, the biases and
        the priors add up to the logits. Where proofs are too many to list, only the `wanted` best of each fact."""

    def evidence(self, predicate: int, template: Template, body: tuple[int, ...]) -> float:
        """What a single proof by this rule adds to the logit."""

    def bodies(self, predicate: int, least: float) -> Iterable[tuple[Template, tuple[int, ...]]]:
        """(template, body) of the rules worth listing, of which a single proof adds at least `least` to the logit."""


class EvidenceModel(FactsModel):
    """Every proof adds its share to the logit."""

    scoring: ClassVar[Scoring] = "evidence"

    def __init__(self, kb: FactsKB) -> None:
        self.kb = kb
        self._rules: dict[tuple[int, Template, tuple[int, ...]], Rule] = {}
        # Of the rules that were counted before, by head, template and body. Not by id: an id is made anew on loading.
        self._counts: dict[tuple[int, str, tuple[int, ...]], Counts] = {}

    @property
    @abstractmethod
    def arrays(self) -> Arrays: ...

    def logits(self, view: FactsView, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
        return logits_by(self.arrays, view, goals)

    def biases(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """The logit of each fact without any proof and without priors."""
        return self.arrays.biases(facts)

    def explain(
        self, view: FactsView, facts: FactIds, logits: Float[np.ndarray, " fact"], num_proofs: int
    ) -> list[Explanation]:
        biases = self.biases(facts) + self.arrays.priors(view.edges, facts)
        if num_proofs <= 0:
            return unexplained(logits, biases)
        weighed = self.arrays.weigh(view.edges, facts, num_proofs)
        proofs = list_proofs(view, facts, weighed, num_proofs, self._rule)
        return explained(logits, biases, count_proofs(weighed, len(facts)), proofs)

    def _rule(self, predicate: int, template: Template, body: tuple[int, ...]) -> Rule:
        key = (predicate, template, body)
        if key not in self._rules:
            self._rules[key] = self._named(predicate, template, body)
        return self._rules[key]

    def _named(self, predicate: int, template: Template, body: tuple[int, ...]) -> Rule:
        """The rule with its counts; its weight is that of the logits before they are calibrated."""
        weight = self.arrays.evidence(predicate, template, body)
        if template.constant:
            rule = constant_rule(self.kb, predicate, body, weight)
        else:
            rule = chain_rule(self.kb.predicates.names, predicate, template, body, weight)
        key = (predicate, str(template), body)
        if key not in self._counts:
            self._counts[key] = Counts(*self.counts(predicate, template, body))
        return rule.counted(*self._counts[key])

    def counts(self, predicate: int, template: Template, body: tuple[int, ...]) -> tuple[int, int]:
        """(support, how often the body holds)."""
        return FactsCounter(self.kb_view.edges, self.kb.predicates).count_atoms(predicate, template, body)

    def rules(self, on_part: OnPart = unheard) -> list[Rule]:
        return self.rules_calibrated_by(self.calibration, on_part)

    def rules_of(self, predicate: int) -> list[Rule]:
        return self.rules_calibrated_by(self.calibration, heads=(predicate,))

    def rules_calibrated_by(
        self, calibration: Calibration | None, on_part: OnPart = unheard, heads: Sequence[int] | None = None
    ) -> list[Rule]:
        """Rules whose body holds somewhere in the KB, by what they explain; a weight is what a score sees of it.

        Of all heads unless some are given.

        No proof adds more to a logit than a single proof by its rule would, so that in a model that lists all its
        strong rules every proof with a share of MIN_EVIDENCE or more cites a listed one.
        """
        size = len(self.kb.predicates)
        lines = calibration or Calibration(np.ones(size), np.zeros(size))
        steepest = float(lines.bend.slopes.max())
        strong = [
            (predicate, template, body)
            for predicate, slope in enumerate((steepest * lines.slopes).tolist())
            if heads is None or predicate in heads
            for template, body in self.arrays.bodies(predicate, MIN_EVIDENCE / slope)
        ]
        biases = self.biases(np.column_stack([np.zeros(size, dtype=np.int64), np.arange(size), np.zeros(size, int)]))
        listed = []
        for number, (predicate, template, body) in enumerate(strong, 1):
            rule = self._rule(predicate, template, body)
            if rule.precision is not None:
                at = biases[predicate] + np.array([0.0, rule.weight or 0.0])
                without, alone = lines.logits(at, np.full(2, predicate)).tolist()
                listed.append(replace(rule, weight=alone - without))
            on_part(number, len(strong))
        return by_what_they_explain(listed)

    def _base_artifact(self, tensors: dict[str, Tensor], **manifest: Any) -> Artifact:
        """With the counts of rules, as far as they are known: counting anew would keep the first question waiting."""
        counts = [[head, template, list(body), *found] for (head, template, body), found in self._counts.items()]
        return super()._base_artifact(tensors, rule_counts=counts, **manifest)

    def with_counts_of(self, artifact: Artifact) -> Self:
        """This model with the counts that an artifact stores; raises ArtifactError.

        Counts that an earlier version stored by id are ignored: these rules are counted anew when asked for.
        """
        stored = artifact.manifest.get("rule_counts", [])
        try:
            self._counts = {
                (int(head), str(template), tuple(map(int, body))): _counted(support, pairs)
                for head, template, body, support, pairs in ([] if isinstance(stored, dict) else stored)
            }
        except (TypeError, ValueError) as error:
            raise ArtifactError(f"the artifact has counts of rules that cannot be read: {error}") from None
        return self


def _counted(support: int, pairs: int) -> Counts:
    if not 0 <= int(support) <= MOST_COUNTED or not 0 <= int(pairs) <= MOST_COUNTED:
        raise ValueError(f"a rule cannot have been counted {str(support)[:20]} of {str(pairs)[:20]} times")
    return Counts(int(support), int(pairs))


def logits_by(arrays: Arrays, view: FactsView, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
    """The logits of all that could stand in the open place, goal by goal."""
    edges = view.edges
    if not goals.asks_for_entities:
        return goals.by_goal(arrays.totals(edges, goals.candidates(*view.sizes)))
    asked = zip(goals.predicates.tolist(), goals.given.tolist(), strict=True)
    return np.stack([arrays.reach(edges, *one, forward=goals.forward) for one in asked])
