"""Mines rules and fits their weights, one predicate an epoch: every sampled fact against all entities, both ways."""

import numpy as np
import torch
from numpy.typing import NDArray

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
from ctp_core.training.combination import MAX_CELLS
from ctp_core.training.facts_split import FactsSplit
from ctp_core.training.fit_rules import Questions, cells_of, collect, fit
from ctp_core.training.mining import Mined, mine_chains, mine_unary
from ctp_core.training.trainer import OnStep, Progress, Trainer, ignore

MIN_WEIGHT = 1e-3  # a weaker rule is forgotten
MAX_FIRED = 500  # entities that a rule may propose per question; a vaguer one says little and costs much
MAX_PATHS = 5 * MAX_FIRED  # so many paths per question lead to more entities than that, or cost too much to tell
VALIDATION = 1000  # facts ranked at the end
NO_IDS, NO_VALUES = np.zeros(0, dtype=np.int64), np.zeros(0)
EMPTY = RuleTable(NO_IDS, NO_IDS, np.zeros((0, 3), dtype=np.int64), NO_VALUES, NO_VALUES, NO_VALUES)
CONSTANT_WEIGHTS = (0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0)
DEFAULT_CONSTANT_WEIGHT = 4.0  # without validation facts
CHOOSING = 500  # validation facts that choose it


class RulesTrainer(Trainer):
    """Predicates in the order of their number of facts; in a last epoch, the weight of rules with constants."""

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
        self.epochs = min(config.epochs, len(self._goals)) + config.constants
        self._constants = np.zeros(1)
        self._known = [KnownFilter([self.split.train], *sizes, subjects=subjects) for subjects in (False, True)]
        self._tables: list[RuleTable] = []
        self._bias = np.zeros(sizes[1])

    @property
    def finished(self) -> bool:
        return self.epoch >= self.epochs

    def train_epoch(self, on_step: OnStep = ignore) -> Progress:
        last = self.epoch == self.epochs - self.config.constants
        loss = self._weigh_constants() if last else self._learn_next()
        self.epoch += 1
        on_step(Progress(self.epoch - 1, self.epochs, 1, 1, loss))
        return Progress(self.epoch, self.epochs, 1, 1, loss, self._validate() if self.finished else {})

    def _learn_next(self) -> float:
        predicate = int(self._goals[self.epoch])
        facts = self.split.train[self.split.train[:, 1] == predicate]
        choose = np.random.default_rng((self.config.seed, predicate))
        facts = facts[np.sort(choose.permutation(len(facts))[: self.config.sample])]
        return self._learn(predicate, facts)

    def _weigh_constants(self) -> float:
        """Sets the weight with the best validation MRR; the loss is what is missing to an MRR of 1."""
        self._constants[0] = DEFAULT_CONSTANT_WEIGHT
        facts = self.split.valid_sample(max(1, min(CHOOSING, int(MAX_CELLS / len(self.kb.entities)))))
        if not len(facts):
            return 0.0
        mrr = self.model_on(self.split.visible(self.kb)).mrr_by_constants(facts, CONSTANT_WEIGHTS)
        self._constants[0] = max(CONSTANT_WEIGHTS, key=lambda weight: mrr[weight])
        return 1 - mrr[float(self._constants[0])]

    def _learn(self, predicate: int, facts: FactIds) -> float:
        rules = [rule for template in UNARY for rule in mine_unary(self._edges, facts, template)]
        for length in range(1, self.config.max_length + 1):
            rules += mine_chains(self._edges, facts, str(length), self.config)
        (objects, vague), (subjects, others) = (self._questions(facts, rules, forward=way) for way in (True, False))
        active = np.ones(len(rules))
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
            if chains.mean_paths(body) > MAX_PATHS:
                vague.append(index)
                continue
            found = chains.counts(body).tocoo()
            rivals = ~known[found.row, found.col]
            if rivals.sum() <= MAX_FIRED * len(facts):
                cells.append(cells_of(found.row[rivals], found.col[rivals], found.data[rivals], rule.template, index))
            else:
                vague.append(index)
        return collect(cells, base, true, known), vague

    def _validate(self) -> dict[str, float]:
        facts, model = self.split.valid_sample(VALIDATION), self.model_on(self.split.visible(self.kb))
        return ranking_metrics(rank_facts(facts, model.object_logits, model.subject_logits, known_filters(self.kb)))

    def _merged(self) -> RuleTable:
        tables = self._tables or [EMPTY]
        columns = {name: np.concatenate([getattr(table, name) for table in tables]) for name in COLUMNS[:4]}
        return RuleTable(**columns, bias=self._bias, constants=self._constants.copy())

    def model(self) -> RulesModel:
        return self.model_on(self.kb)

    def model_on(self, kb: FactsKB) -> RulesModel:
        """What is learnt so far, standing on these facts."""
        return RulesModel(self.config, kb, self._merged())

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
        self._tables, self._bias, self._constants = [table], table.bias.copy(), table.constants.copy()


def _table(predicate: int, rules: list[Mined], weights: NDArray[np.float64]) -> RuleTable:
    kept = [index for index in range(len(rules)) if weights[index] > MIN_WEIGHT]
    body = np.full((len(kept), 3), PADDING, dtype=np.int64)
    for row, index in enumerate(kept):
        body[row, : len(rules[index].body)] = rules[index].body
    template = np.array([TEMPLATES.index(rules[index].template) for index in kept], dtype=np.int64)
    head = np.full(len(kept), predicate, dtype=np.int64)
    return RuleTable(head, template, body, weights[kept], NO_VALUES, NO_VALUES)
