"""Mines rules and fits their weights, one predicate an epoch: every sampled fact against all entities, both ways."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ctp_core.artifact import Artifact
from ctp_core.config.base import BaseConfig
from ctp_core.config.rules import RulesConfig
from ctp_core.datasets.kb import FactIds, FactsKB, KnowledgeBase
from ctp_core.errors import ArtifactError, ConfigError
from ctp_core.evaluation.ranking import KnownFilter, known_filters, rank_facts, ranking_metrics
from ctp_core.models.rules_model import COLUMNS, RulesModel
from ctp_core.provers.counting import UNARY
from ctp_core.provers.edge_list import EdgeList
from ctp_core.provers.rule_arrays import PADDING, TEMPLATES, ChainRows, RuleTable, evidence_of, turned
from ctp_core.training.facts_split import FactsSplit
from ctp_core.training.mining import Mined, mine_chains, mine_unary
from ctp_core.training.schedule import one_cycle
from ctp_core.training.trainer import OnStep, Progress, Trainer, ignore

INITIAL_WEIGHT = -1.0  # softplus: 0.31
MIN_WEIGHT = 1e-3  # a weaker rule is forgotten
MAX_FIRED = 500  # entities that a rule may propose per question; a vaguer one says little and costs much
VALIDATION = 1000  # facts ranked at the end
NO_IDS, NO_VALUES = np.zeros(0, dtype=np.int64), np.zeros(0)
EMPTY = RuleTable(NO_IDS, NO_IDS, np.zeros((0, 3), dtype=np.int64), NO_VALUES, NO_VALUES)
Cells = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


@dataclass(frozen=True)
class Questions:
    """One direction of the sampled facts as sparse features: cells (question, entity) × rules."""

    features: Float[Tensor, "cell rule"]  # sparse
    question: Int[Tensor, " cell"]
    entity: Int[Tensor, " cell"]
    true_features: Float[Tensor, "question rule"]
    base: Float[Tensor, "entity rule"]  # what is said of every entity, whoever asks
    excluded: Float[Tensor, "question entity"]  # sparse: the true answers, which are no rivals


class RulesTrainer(Trainer):
    """Predicates in the order of their number of facts."""

    def __init__(self, config: BaseConfig, kb: KnowledgeBase, device: torch.device) -> None:
        if not isinstance(config, RulesConfig) or not isinstance(kb, FactsKB):
            raise ConfigError("mined rules learn from a KB of kind 'facts' and a config of method 'rules'")
        del device
        self.config, self.kb, self.epoch = config, kb, 0
        self.split = FactsSplit.of(kb)
        sizes = (len(kb.entities), len(kb.predicates))
        self._edges = EdgeList(self.split.train, *sizes)
        predicates, counts = np.unique(self.split.train[:, 1], return_counts=True)
        self._goals = predicates[np.argsort(-counts, kind="stable")]
        self.epochs = min(config.epochs, len(self._goals))
        self._known = [KnownFilter([self.split.train], *sizes, subjects=subjects) for subjects in (False, True)]
        self._tables: list[RuleTable] = []
        self._bias = np.zeros(sizes[1])

    @property
    def finished(self) -> bool:
        return self.epoch >= self.epochs

    def train_epoch(self, on_step: OnStep = ignore) -> Progress:
        predicate = int(self._goals[self.epoch])
        facts = self.split.train[self.split.train[:, 1] == predicate]
        choose = np.random.default_rng((self.config.seed, predicate))
        facts = facts[np.sort(choose.permutation(len(facts))[: self.config.sample])]
        loss = self._learn(predicate, facts)
        self.epoch += 1
        on_step(Progress(self.epoch - 1, self.epochs, 1, 1, loss))
        return Progress(self.epoch, self.epochs, 1, 1, loss, self._validate() if self.finished else {})

    def _learn(self, predicate: int, facts: FactIds) -> float:
        rules = [rule for template in UNARY for rule in mine_unary(self._edges, facts, template)]
        for length in range(1, self.config.max_length + 1):
            rules += mine_chains(self._edges, facts, str(length), self.config)
        (objects, vague), (subjects, others) = (self._questions(facts, rules, forward=way) for way in (True, False))
        active = torch.ones(len(rules), dtype=torch.float64)
        active[[*vague, *others]] = 0
        weights, bias, loss = fit([objects, subjects], active, self.config)
        self._bias[predicate] = bias
        self._tables.append(_table(predicate, rules, weights))
        return loss

    def _questions(self, facts: FactIds, rules: list[Mined], *, forward: bool) -> tuple[Questions, list[int]]:
        """The features of one direction, and the rules that are too vague to be kept."""
        given, asked, unary = (0, 2, "1Y") if forward else (2, 0, "1X")
        num_entities, starts = self._edges.num_entities, facts[:, given]
        known = self._known[0 if forward else 1].mask(starts, facts[:, 1])
        known[np.arange(len(facts)), facts[:, asked]] = True
        chains, cells, vague = ChainRows(self._edges.counter, starts), [], []
        base = np.zeros((num_entities, len(rules)))
        true = np.zeros((len(facts), len(rules)))
        for index, rule in enumerate(rules):
            if rule.template in UNARY and rule.template != unary:
                continue  # the same for all answers
            true[rule.facts, index] = evidence_of(rule.counts, rule.template)
            if rule.template == unary:
                base[:, index] = evidence_of(self._edges.counter.degrees(rule.body[0]), rule.template)
                continue
            body = rule.body if forward else turned(rule.body, self._edges.num_predicates)
            found = chains.counts(body).tocoo()
            rivals = ~known[found.row, found.col]
            if rivals.sum() <= MAX_FIRED * len(facts):
                cells.append(_cells(found.row[rivals], found.col[rivals], found.data[rivals], rule.template, index))
            else:
                vague.append(index)
        return _collect(cells, base, true, known, num_entities), vague

    def _validate(self) -> dict[str, float]:
        facts = self.split.valid[np.random.default_rng(0).permutation(len(self.split.valid))[:VALIDATION]]
        model = self.model()
        return ranking_metrics(rank_facts(facts, model.object_logits, model.subject_logits, known_filters(self.kb)))

    def _merged(self) -> RuleTable:
        tables = self._tables or [EMPTY]
        columns = {name: np.concatenate([getattr(table, name) for table in tables]) for name in COLUMNS[:-1]}
        return RuleTable(**columns, bias=self._bias)

    def model(self) -> RulesModel:
        return RulesModel(self.config, self.kb, self._merged())

    def checkpoint(self) -> Artifact:
        table = self._merged()
        tensors = {name: torch.from_numpy(getattr(table, name).copy()) for name in COLUMNS}
        return Artifact({"config": self.config.model_dump(mode="json"), "epoch": self.epoch}, tensors)

    def restore(self, checkpoint: Artifact) -> None:
        if checkpoint.manifest.get("config") != self.config.model_dump(mode="json"):
            raise ArtifactError("the checkpoint was written by a run with another config")
        try:
            table = RuleTable(**{name: checkpoint.tensors[name].numpy() for name in COLUMNS})
            self.epoch = checkpoint.manifest["epoch"]
        except KeyError as error:
            raise ArtifactError(f"the checkpoint of mined rules has no {error}") from None
        self._tables, self._bias = [table], table.bias.copy()


def fit(directions: list[Questions], active: Tensor, config: RulesConfig) -> tuple[NDArray[np.float64], float, float]:
    """(weights, bias, loss): -log of the chance of the true answer among all entities that are not also true.

    The bias turns that chance into the sigmoid of the logit.
    """
    raw = torch.full_like(active, INITIAL_WEIGHT, requires_grad=True)
    optimiser = torch.optim.Adam([raw], lr=config.learning_rate)
    for step in range(config.steps if len(active) else 0):
        optimiser.param_groups[0]["lr"] = one_cycle(step, config.steps, config.learning_rate)
        weights = active * functional.softplus(raw)
        chances = [_chances(direction, weights) for direction in directions]
        losses = [functional.softplus(rivals - true).mean() for true, rivals in chances]
        loss = torch.stack(losses).sum() + config.sparsity * weights.sum() / max(1, len(directions[0].true_features))
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    with torch.no_grad():
        weights = active * functional.softplus(raw)
        chances = [_chances(direction, weights) for direction in directions]
        bias = -float(torch.cat([rivals for _, rivals in chances]).mean())
        loss = torch.stack([functional.softplus(rivals - true).mean() for true, rivals in chances]).sum()
    return weights.numpy(), bias, float(loss)


def _chances(questions: Questions, weights: Tensor) -> tuple[Float[Tensor, " question"], Float[Tensor, " question"]]:
    """(logit of the true answer, log Σ exp of all rivals): entities without evidence are counted, not visited."""
    base = torch.exp(questions.base @ weights)  # [entity]
    plain = base[questions.entity]
    evidence = torch.exp((questions.features @ weights[:, None])[:, 0])
    rivals = base.sum() - (questions.excluded @ base[:, None])[:, 0]
    rivals = rivals.index_add(0, questions.question, plain * (evidence - 1))
    return questions.true_features @ weights, rivals.clamp(min=1e-9).log()


def _cells(
    question: NDArray[np.int64], entity: NDArray[np.int64], counts: NDArray[np.int64], template: str, rule: int
) -> Cells:
    return question, entity, np.full(len(question), rule), evidence_of(counts, template)


def _collect(
    cells: list[Cells],
    base: NDArray[np.float64],
    true: NDArray[np.float64],
    known: NDArray[np.bool_],
    num_entities: int,
) -> Questions:
    some = cells or [(NO_IDS, NO_IDS, NO_IDS, NO_VALUES)]
    question, entity, rule, value = (np.concatenate(column) for column in zip(*some, strict=True))
    keys, cell = np.unique(question.astype(np.int64) * num_entities + entity, return_inverse=True)
    features = _sparse(cell, rule, value, (len(keys), true.shape[1]))
    rows, columns = np.nonzero(known)
    excluded = _sparse(rows, columns, np.ones(len(rows)), known.shape)
    return Questions(
        features,
        torch.from_numpy(keys // num_entities),
        torch.from_numpy(keys % num_entities),
        torch.from_numpy(true),
        torch.from_numpy(base),
        excluded,
    )


def _sparse(
    rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float64], shape: tuple[int, int]
) -> Tensor:
    indices = torch.from_numpy(np.stack([rows, columns]).astype(np.int64))
    return torch.sparse_coo_tensor(indices, torch.from_numpy(values), shape, check_invariants=False).coalesce()


def _table(predicate: int, rules: list[Mined], weights: NDArray[np.float64]) -> RuleTable:
    kept = [index for index in range(len(rules)) if weights[index] > MIN_WEIGHT]
    body = np.full((len(kept), 3), PADDING, dtype=np.int64)
    for row, index in enumerate(kept):
        body[row, : len(rules[index].body)] = rules[index].body
    template = np.array([TEMPLATES.index(rules[index].template) for index in kept], dtype=np.int64)
    return RuleTable(np.full(len(kept), predicate, dtype=np.int64), template, body, weights[kept], np.zeros(0))
