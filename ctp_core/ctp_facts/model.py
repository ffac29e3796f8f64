"""The paper's CTP on one KB of facts: soft unification in all three places, the best proof decides."""

from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray

from ctp_core.artifact import Artifact
from ctp_core.base.cost import check_question
from ctp_core.base.deadline import Expired, never
from ctp_core.base.facts_model import Explanation, FactsModel, FactsView, read_config, read_kb, read_probabilities
from ctp_core.base.goals import GoalIds
from ctp_core.base.model import Scoring
from ctp_core.base.progress import OnPart, unheard
from ctp_core.base.rule_counts import RuleCounter, counter_of
from ctp_core.ctp_facts.config import CtpFactsConfig
from ctp_core.ctp_facts.entities import SoftFacts
from ctp_core.ctp_facts.provers import NearestProver, SoftProver, TableProver
from ctp_core.ctp_facts.theory import SoftTheory
from ctp_core.errors import ArtifactError
from ctp_core.kb.knowledge_base import FactIds, FactsKB, sorted_facts
from ctp_core.proofs import Proof, ProofNode
from ctp_core.rules import Rule

LOWEST = 1e-9  # a score whose logarithm is still finite


class CtpFactsModel(FactsModel):
    """The paper's prover on facts. Its `logits` are already scores: exp(-slope · distance) of the best proof."""

    scoring: ClassVar[Scoring] = "best_proof"

    def __init__(self, config: CtpFactsConfig, kb: FactsKB, theory: SoftTheory, facts: FactIds | None = None) -> None:
        self.config: CtpFactsConfig = config
        self.kb = kb
        self.theory = theory
        self._rules: dict[str, Rule] = {}
        stated = kb.splits["train"] if facts is None else facts
        self._facts = SoftFacts(sorted_facts(stated, len(kb.entities), len(kb.predicates)), len(kb.predicates))

    @property
    def semiring(self) -> str:
        return self.config.semiring

    def to_calibrate(self, logits: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """The logarithm of a score, which is the distance of its proof from the facts."""
        return np.asarray(np.log(np.maximum(logits, LOWEST)))

    @cached_property
    def _prover(self) -> SoftProver:
        return self._new_prover(self._facts, len(self.kb.entities), never)

    def _new_prover(self, facts: SoftFacts, num_entities: int, expired: Expired) -> SoftProver:
        return (TableProver if self.theory.dense else NearestProver)(self.theory, facts, num_entities, expired)

    def _prover_of(self, view: FactsView) -> SoftProver:
        if not view.extended:
            return self._prover
        if self.theory.dense:
            check_question(len(view.entities), 2 * len(view.predicates))
        return self._new_prover(SoftFacts(view.edges.facts, len(view.predicates)), len(view.entities), view.expired)

    def logits(self, view: FactsView, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
        prover = self._prover_of(view)
        if goals.asks_for_entities:
            return (prover.objects if goals.forward else prover.subjects)(goals.predicates, goals.given)
        subjects, predicates, objects = goals.candidates(*view.sizes).T
        return goals.by_goal(prover.objects(predicates, subjects)[np.arange(len(objects)), objects])

    def explain(
        self, view: FactsView, facts: FactIds, logits: Float[np.ndarray, " fact"], num_proofs: int
    ) -> list[Explanation]:
        del logits
        prover = self._prover_of(view)
        return [Explanation(self._proofs(prover, view, fact, num_proofs)) for fact in facts]

    def _proofs(
        self, prover: SoftProver, view: FactsView, fact: NDArray[np.int64], num_proofs: int
    ) -> tuple[Proof, ...]:
        if num_proofs <= 0:
            return ()
        found = prover.proofs(view, fact.tolist(), num_proofs)
        return tuple(proof._replace(tree=self._counted(proof.tree)) for proof in found)

    def _counted(self, node: ProofNode) -> ProofNode:
        """A proof whose rules have the confidence that the list of rules gives them."""
        children = tuple(self._counted(child) for child in node.children)
        return node._replace(children=children, rule=None if node.rule is None else self._as_counted(node.rule))

    def _as_counted(self, rule: Rule) -> Rule:
        if rule.text not in self._rules:
            self._rules[rule.text] = rule.counted(*self._counter.count(rule))
        return replace(self._rules[rule.text], weight=rule.confidence)

    @cached_property
    def _counter(self) -> RuleCounter:
        return counter_of(self.kb)

    def rules(self, on_part: OnPart = unheard) -> list[Rule]:
        return self._prover.rules(self.kb, on_part)

    def to_artifact(self) -> Artifact:
        return self._base_artifact({f"theory.{name}": tensor for name, tensor in self.theory.state_dict().items()})

    @classmethod
    def from_artifact(cls, artifact: Artifact, device: torch.device) -> "CtpFactsModel":
        config, kb = read_config(artifact, CtpFactsConfig), read_kb(artifact)
        theory = SoftTheory(config, len(kb.entities), len(kb.predicates), torch.Generator(), device)
        state = {name.removeprefix("theory."): t for name, t in artifact.tensors.items() if name.startswith("theory.")}
        try:
            theory.load_state_dict(state)
        except RuntimeError as error:
            raise ArtifactError(f"the tensors do not fit the config: {error}") from None
        return cls(config, kb, theory.requires_grad_(False)).calibrated_by(read_probabilities(artifact))
