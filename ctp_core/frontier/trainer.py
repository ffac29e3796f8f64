"""Trains the propagation: each epoch hides some facts and asks for them, among all entities, by the facts left."""

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn import functional

from ctp_core.base.calibration import calibrate_on_unseen
from ctp_core.base.edges import slices
from ctp_core.base.evaluation import known_filters, rank_facts
from ctp_core.base.facts_trainer import CalibratedTrainer, FactsTrainer
from ctp_core.base.training_loop import following, one_cycle
from ctp_core.frontier.config import FrontierConfig
from ctp_core.frontier.cost import CALIBRATED, VALIDATION, questions_of_epoch
from ctp_core.frontier.graph import Graph
from ctp_core.frontier.model import FrontierModel
from ctp_core.frontier.network import FrontierNetwork
from ctp_core.frontier.propagation import Asked, logits, propagate
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.shapes import Float, Tensor


class FrontierTrainer(CalibratedTrainer[FrontierModel], FactsTrainer[FrontierModel]):
    """Minimises -log of the chance of each hidden answer among it and all that are not stated."""

    config: FrontierConfig
    module: FrontierNetwork

    def __init__(self, config: FrontierConfig, kb: FactsKB, device: torch.device) -> None:
        super().__init__(config, kb, device, config.eval_every)
        self._atoms = 2 * len(kb.predicates)
        with following(self.generator, device):
            self.module = FrontierNetwork(len(kb.predicates), config).to(device)
        self.optimiser = torch.optim.Adam(self.module.parameters(), lr=config.learning_rate)
        self._facts = torch.from_numpy(self.split.train)
        self._answers = _Answers(_questions(self._facts, self._atoms // 2), self._atoms)
        self._graph: Graph | None = None  # of the facts that this epoch shows

    def batches(self) -> Sequence[Tensor]:
        """Hides some facts, and deals out the questions (entity, atom) that they answer."""
        order = torch.randperm(len(self._facts), generator=self.generator)
        hidden, shown = torch.split(order, _sizes(len(order), self.config.hidden_facts))
        facts = self._facts[shown].numpy()
        self._graph = Graph(facts, len(self.kb.entities), len(self.kb.predicates), self.device)
        asked = _questions(self._facts[hidden], self._atoms // 2)
        self._hidden = _Answers(asked, self._atoms)
        questions = torch.unique(asked[:, 0] * self._atoms + asked[:, 1])
        questions = questions[torch.randperm(len(questions), generator=self.generator)]
        return torch.split(questions, self.config.at_once(len(self.kb.entities)))

    def learning_rate(self, step: int, steps: int) -> float:
        return one_cycle(step, steps, self.config.learning_rate)

    def loss(self, batch: Tensor) -> Float[Tensor, ""]:
        assert self._graph is not None
        asked = Asked(*((column.to(self.device)) for column in (batch // self._atoms, batch % self._atoms)))
        phase = float(torch.rand((), generator=self.generator))
        self.module.train()
        with following(self.generator, self.device):
            reached = propagate(self.module, self._graph, asked, self.config, phase)
        self.module.eval()
        table = logits(self.module, self._graph, asked, reached)
        question, answer = (ids.to(self.device) for ids in self._hidden.of(batch))
        true = table[question, answer]
        known = tuple(ids.to(self.device) for ids in self._answers.of(batch))
        others = table.index_put(known, table.new_tensor(-torch.inf)).logsumexp(1)
        # A question to which every entity is an answer has no rivals, and nothing to learn.
        return functional.softplus(others[question] - true).mean()

    def ranks(self) -> Float[np.ndarray, " question"]:
        model = FrontierModel(self.config, self.split.visible(self.kb), self.module)
        facts = self.split.valid_sample(VALIDATION)
        return rank_facts(facts, model.one_way, known_filters(self.kb, "valid"), self.on_part)

    def model(self) -> FrontierModel:
        calibration = calibrate_on_unseen(lambda kb: self.model_on(kb).kb_logits, self.kb, self.split, most=CALIBRATED)
        return self.model_on(self.kb).calibrated_by(calibration)

    def model_on(self, kb: FactsKB) -> FrontierModel:
        return FrontierModel(self.config, kb, self.with_best_weights(self.module))


class _Answers:
    """The answers to questions, found by the number of a question: entity · atoms + atom."""

    def __init__(self, asked: Tensor, num_atoms: int) -> None:
        keys = asked[:, 0] * num_atoms + asked[:, 1]
        order = torch.argsort(keys, stable=True)
        self._keys, self._answers = keys[order].numpy(), asked[order, 2].numpy()

    def of(self, questions: Tensor) -> tuple[Tensor, Tensor]:
        """(place of the question, answer)."""
        wanted = questions.numpy()
        place, row = slices(*(np.searchsorted(self._keys, wanted, side=side) for side in ("left", "right")))
        return torch.from_numpy(place), torch.from_numpy(self._answers[row])


def _questions(facts: Tensor, num_predicates: int) -> Tensor:
    """[entity, atom, answer] of each fact, read both ways."""
    subject, predicate, object_ = facts.unbind(1)
    return torch.cat(
        [
            torch.stack([subject, predicate, object_], dim=1),
            torch.stack([object_, predicate + num_predicates, subject], dim=1),
        ]
    )


def _sizes(num_facts: int, share: float) -> list[int]:
    hidden = questions_of_epoch(num_facts, share)
    return [hidden, num_facts - hidden]
