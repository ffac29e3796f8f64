"""Answers by propagation from the question, in order of what both sides of an answer say of it."""

from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int

from ctp_core.artifact import Artifact
from ctp_core.base.facts_model import (
    Explanation,
    FactsModel,
    FactsView,
    facts_about,
    load_state,
    read_config,
    read_kb,
    read_probabilities,
)
from ctp_core.base.goals import GoalIds
from ctp_core.base.model import Scoring
from ctp_core.base.progress import OnPart, unheard
from ctp_core.base.rule_counts import Counts
from ctp_core.frontier.answering import Answering
from ctp_core.frontier.config import FrontierConfig
from ctp_core.frontier.network import FrontierNetwork
from ctp_core.frontier.proofs import explanations
from ctp_core.frontier.rules import Key, RuleBook, read_counts
from ctp_core.kb.knowledge_base import FactIds, FactsKB, KnowledgeBase
from ctp_core.rules import Rule

SMALL = 4096  # cells: of a KB with few entities, more answers are confirmed, so that a small one has all confirmed

SHOWN = 10  # answers that people usually ask for: these are confirmed at once


class FrontierModel(FactsModel):
    """logit = what both sides of a fact say of it; answers that are not among the best are never confirmed.

    `network` is learnt, and knows predicates alone.
    """

    scoring: ClassVar[Scoring] = "evidence"

    def __init__(self, config: FrontierConfig, kb: FactsKB, network: FrontierNetwork) -> None:
        self.config: FrontierConfig = config
        self.kb, self.network = kb, network
        self._answering: Answering | None = None  # of the view asked last
        self._rule_book: RuleBook | None = None
        self._rules: list[Rule] | None = None
        self._counts: dict[Key, Counts] = {}

    def on(self, kb: KnowledgeBase) -> "FrontierModel":
        """The same network on other facts: those whose predicates it knows, about whatever entities."""
        other = FrontierModel(self.config, facts_about(kb, self.kb.predicates), self.network)
        return other.calibrated_by(self.calibration)

    def answering(self, view: FactsView) -> Answering:
        if self._answering is None or self._answering.view is not view:
            self._answering = Answering(self.network, self.config, view)
        return self._answering

    def one_way(self, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
        """The logits of all entities from the question's own side: what training looks at."""
        return self._from_own_side(self.kb_view, goals)

    def _from_own_side(self, view: FactsView, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
        atoms = goals.predicates + (0 if goals.forward else len(view.predicates))
        return self.answering(view).one_way(goals.given, atoms)

    def logits(self, view: FactsView, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
        """The logits; of entities, only the best are confirmed, and the others stand behind these in their order."""
        if not goals.asks_for_entities:
            return goals.by_goal(self.answering(view).scores(goals.candidates(*view.sizes)))
        screened = self._from_own_side(view, goals)
        rows, columns = self._to_confirm(view, goals, screened)
        facts = goals.facts[rows]
        facts[:, goals.place] = columns
        scores = self.answering(view).scores(facts)
        worst = np.full(len(goals), np.inf)
        np.minimum.at(worst, rows, scores)
        others = screened.copy()
        others[rows, columns] = -np.inf
        found = screened - np.maximum(0, others.max(1, initial=-np.inf) - worst)[:, None]
        found[rows, columns] = scores
        return np.asarray(found)

    def _to_confirm(
        self, view: FactsView, goals: GoalIds, screened: Float[np.ndarray, "goal entity"]
    ) -> tuple[Int[np.ndarray, " chosen"], Int[np.ndarray, " chosen"]]:
        """(goal, entity) of the best answers to each goal: of those that are stated, and of the others."""
        num_entities = screened.shape[1]
        asked = 0 if goals.for_ranking else SHOWN
        most = min(num_entities, max(self.config.confirmed, asked, SMALL // num_entities))
        stated = view.edges.states(goals.candidates(*view.sizes)).reshape(screened.shape)
        chosen = np.zeros(screened.shape, dtype=bool)
        few = (goals.for_ranking or goals.new_only) and most < num_entities
        kinds = (~stated,) if few else (~stated, stated)
        rows = np.arange(len(goals))[:, None]
        for kind in kinds:
            best = np.argpartition(-np.where(kind, screened, -np.inf), most - 1, axis=1)[:, :most]
            chosen[rows, best] |= kind[rows, best]
        goal, entity = np.nonzero(chosen)
        return goal, entity

    def settled(
        self, view: FactsView, facts: FactIds, logits: Float[np.ndarray, " fact"]
    ) -> Float[np.ndarray, " fact"]:
        """What is shown is confirmed, however many answers were asked for."""
        del logits
        return self.answering(view).scores(facts)

    def explain(
        self, view: FactsView, facts: FactIds, logits: Float[np.ndarray, " fact"], num_proofs: int
    ) -> list[Explanation]:
        return explanations(self.answering(view), facts, logits, num_proofs, self._book(view).rule)

    def _book(self, view: FactsView) -> RuleBook:
        """Rules are counted over the KB, also where a question adds facts."""
        del view
        if self._rule_book is None:
            self._rule_book = RuleBook(Answering(self.network, self.config, self.kb_view), self._counts)
        return self._rule_book

    def rules(self, on_part: OnPart = unheard) -> list[Rule]:
        """Read off the proofs of stated facts once, then kept."""
        if self._rules is None:
            slopes = np.ones(len(self.kb.predicates)) if self.calibration is None else self.calibration.slopes
            self._rules = self._book(self.kb_view).decoded(slopes, on_part)
        return self._rules

    def to_artifact(self) -> Artifact:
        tensors = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        counts = [[head, list(atoms), *found] for (head, atoms), found in self._counts.items()]
        return self._base_artifact(tensors, rule_counts=counts)

    @classmethod
    def from_artifact(cls, artifact: Artifact, device: torch.device) -> "FrontierModel":
        config, kb = read_config(artifact, FrontierConfig), read_kb(artifact)
        network = FrontierNetwork(len(kb.predicates), config).to(device)
        load_state(network, "network", artifact)
        model = cls(config, kb, network.requires_grad_(False).eval())
        model._counts = read_counts(artifact)
        return model.calibrated_by(read_probabilities(artifact))
