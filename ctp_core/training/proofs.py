"""Trains the evidence head: one-vs-all over all pairs of entities, a few predicates at a time."""

import copy

import numpy as np
import torch
from torch import Tensor

from ctp_core.artifact import Artifact
from ctp_core.config.base import BaseConfig
from ctp_core.config.proofs import ProofsConfig
from ctp_core.datasets.kb import FactsKB, KnowledgeBase
from ctp_core.errors import ArtifactError, ConfigError
from ctp_core.evaluation.ranking import known_filters, rank_facts, ranking_metrics
from ctp_core.models.proofs import ProofsModel
from ctp_core.provers.evidence import EvidenceHead, OwnFacts, atom_tables
from ctp_core.training.facts_split import FactsSplit
from ctp_core.training.losses import LOSSES
from ctp_core.training.schedule import one_cycle
from ctp_core.training.trainer import OnStep, Progress, Trainer, ignore

State = dict[str, Tensor]


class ProofsTrainer(Trainer):
    """Adam with a one-cycle rate; keeps the weights that were best on validation."""

    def __init__(self, config: BaseConfig, kb: KnowledgeBase, device: torch.device) -> None:
        if not isinstance(config, ProofsConfig) or not isinstance(kb, FactsKB):
            raise ConfigError("the model of proofs learns from a KB of kind 'facts' and a config of method 'proofs'")
        self.config, self.kb, self.device = config, kb, device
        self.epochs, self.epoch = config.epochs, 0
        self.split = FactsSplit.of(kb)
        self._generator = torch.Generator().manual_seed(config.seed)
        num_entities, num_predicates = len(kb.entities), len(kb.predicates)
        self.head = EvidenceHead(num_predicates, config.templates, self._generator, device, config.initial_scale)
        self._tables = atom_tables(self.split.train, num_entities, num_predicates, device)
        self._goals = torch.from_numpy(np.unique(self.split.train[:, 1]))
        self._optimiser = torch.optim.Adam(self.head.parameters(), lr=config.learning_rate)
        self._best: State = {}
        self._best_mrr = -1.0

    @property
    def finished(self) -> bool:
        return self.epoch >= self.epochs

    def train_epoch(self, on_step: OnStep = ignore) -> Progress:
        order = self._goals[torch.randperm(len(self._goals), generator=self._generator)]
        batches = order.split(self.config.batch_size)  # type: ignore[no-untyped-call]
        steps, total = len(batches), 0.0
        for step, goals in enumerate(batches):
            total += self._step(goals, self.epoch * steps + step, self.epochs * steps)
            on_step(Progress(self.epoch, self.epochs, step + 1, steps, total / (step + 1)))
        self.epoch += 1
        metrics = self._validate() if self.finished or self.epoch % self.config.eval_every == 0 else {}
        return Progress(self.epoch, self.epochs, steps, steps, total / steps, metrics)

    def _step(self, goals: Tensor, step: int, steps: int) -> float:
        for group in self._optimiser.param_groups:
            group["lr"] = one_cycle(step, steps, self.config.learning_rate)
        goals = goals.to(self.device)
        facts = self._tables[goals]
        visible = self._visible()
        goal, subject, object_ = visible[goals].nonzero().unbind(1)
        logits = self.head.logits(visible, goals, OwnFacts(goal, goals[goal], subject, object_))
        loss = LOSSES[self.config.loss](logits, facts) + self.config.sparsity * self.head.sparsity(goals)
        loss = loss / len(goals)
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        return loss.item()

    def _visible(self) -> Tensor:
        """The tables without a random share of the facts: no proof may rest on the KB being complete."""
        if not self.config.hidden_facts:
            return self._tables
        kept = torch.rand(len(self.split.train), generator=self._generator) >= self.config.hidden_facts
        shape = (len(self.kb.entities), len(self.kb.predicates))
        return atom_tables(self.split.train[kept.numpy()], *shape, self.device)

    def _validate(self) -> dict[str, float]:
        if not len(self.split.valid):
            return {}
        metrics = ranking_metrics(self._ranks())
        if metrics["mrr"] > self._best_mrr:
            self._best_mrr = metrics["mrr"]
            self._best = copy.deepcopy(self.head.state_dict())
        return metrics

    def _ranks(self) -> np.ndarray:
        goals = torch.from_numpy(np.unique(self.split.valid[:, 1])).to(self.device)
        with torch.no_grad():
            batches = [self.head.logits(self._tables, goal[None]) for goal in goals]
        logits = torch.cat(batches).cpu().numpy()
        row = np.zeros(len(self.kb.predicates), dtype=np.int64)
        row[goals.cpu().numpy()] = np.arange(len(goals))
        filters = known_filters(self.kb)
        return rank_facts(self.split.valid, lambda s, p: logits[row[p], s], lambda o, p: logits[row[p], :, o], filters)

    def checkpoint(self) -> Artifact:
        tensors = {f"head.{name}": tensor for name, tensor in self.head.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self._best.items()}
        for index, slots in self._optimiser.state_dict()["state"].items():
            tensors |= {f"adam.{index}.{slot}": value for slot, value in slots.items()}
        tensors["generator"] = self._generator.get_state()
        manifest = {"config": self.config.model_dump(), "epoch": self.epoch, "best_mrr": self._best_mrr}
        return Artifact(manifest, {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()})

    def restore(self, checkpoint: Artifact) -> None:
        if checkpoint.manifest.get("config") != self.config.model_dump():
            raise ArtifactError("the checkpoint was written by a run with another config")
        try:
            self.head.load_state_dict(_under("head.", checkpoint))
            self._restore_adam(_under("adam.", checkpoint))
            self._generator.set_state(checkpoint.tensors["generator"])
            self.epoch, self._best_mrr = checkpoint.manifest["epoch"], checkpoint.manifest["best_mrr"]
        except (KeyError, RuntimeError, ValueError) as error:
            raise ArtifactError(f"the checkpoint does not fit this run: {error}") from None
        self._best = {name: tensor.to(self.device) for name, tensor in _under("best.", checkpoint).items()}

    def _restore_adam(self, slots: State) -> None:
        state = self._optimiser.state_dict()
        state["state"] = {}
        for name, value in slots.items():
            index, slot = name.split(".", 1)
            state["state"].setdefault(int(index), {})[slot] = value.clone()
        self._optimiser.load_state_dict(state)

    def model(self) -> ProofsModel:
        head = copy.deepcopy(self.head)
        if self._best:
            head.load_state_dict(self._best)
        return ProofsModel(self.config, self.kb, head.requires_grad_(False))


def _under(prefix: str, artifact: Artifact) -> State:
    return {name.removeprefix(prefix): t for name, t in artifact.tensors.items() if name.startswith(prefix)}
