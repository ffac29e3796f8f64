"""Mines rules and fits their weights, one predicate an epoch: every sampled fact against all entities, both ways."""

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy import sparse

from ctp_core.artifact import Artifact
from ctp_core.base.checkpoints import check_config
from ctp_core.base.edges import EdgeList
from ctp_core.base.evaluation import KnownFilter, known_filters, own_choices, rank_facts, ranking_metrics
from ctp_core.base.trainer import OnStep, Progress, Trainer, ignore
from ctp_core.errors import ArtifactError
from ctp_core.evidence.config import RulesConfig
from ctp_core.evidence.rules_arrays import PADDING, TEMPLATES, RuleTable, evidence_of
from ctp_core.evidence.rules_chains import ChainRows, Hidden, turned
from ctp_core.evidence.rules_fit import Questions, cells_of, collect, fit
from ctp_core.evidence.rules_mining import Mined, longest, mine_chains, mine_unary
from ctp_core.evidence.rules_model import COLUMNS, RulesModel
from ctp_core.kb.knowledge_base import FactIds, FactsKB
from ctp_core.kb.splits import FactsSplit
from ctp_core.rules import UNARY

MIN_WEIGHT = 1e-3  # a weaker rule is forgotten
MAX_FIRED = 500  # entities that a rule may propose per question; a vaguer one says little and costs much
MAX_PATHS = 5 * MAX_FIRED  # so many paths per question lead to more entities than that, or cost too much to tell
MAX_GROUNDINGS = 12e6  # of all rules for all questions of a predicate: bounds the memory and the time of a fit
VALIDATION = 1000  # facts ranked at the end
CHOOSING = 3000  # validation facts that choose the weights of rules with constants
CONSTANT_WEIGHTS = (0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 36.0)  # tried on validation facts
DEFAULT_CONSTANT_WEIGHT = 4.0  # without validation facts
NO_IDS, NO_VALUES = np.zeros(0, dtype=np.int64), np.zeros(0)
MAX_LENGTH = 5
EMPTY = RuleTable(NO_IDS, NO_IDS, np.zeros((0, MAX_LENGTH), dtype=np.int64), NO_VALUES, NO_VALUES, NO_VALUES)


class RulesTrainer(Trainer):
    """Predicates in the order of their number of facts; in a last epoch, the weights of rules with constants."""

    def __init__(self, config: RulesConfig, kb: FactsKB, device: torch.device) -> None:
        del device
        self.config, self.kb, self.epoch = config, kb, 0
        self.split = FactsSplit.of(kb)
        sizes = (len(kb.entities), len(kb.predicates))
        self._edges = EdgeList(self.split.train, *sizes)
        predicates, counts = np.unique(self.split.train[:, 1], return_counts=True)
        self._goals = predicates[np.argsort(-counts, kind="stable")]
        self.epochs = min(config.epochs, len(self._goals)) + config.constants
        self._constants = np.zeros(sizes[1])
        self._known = [KnownFilter([self.split.train], *sizes, subjects=subjects) for subjects in (False, True)]
        self._tables: list[RuleTable] = []
        # Until it is learnt, a predicate is taken to hold of one pair among all.
        self._bias = np.full(sizes[1], -2 * np.log(sizes[0]))

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
        """Chooses the weights of rules with constants; the loss is 1 - MRR on validation facts."""
        self._constants[:] = 1.0
        visible = self.model_on(self.split.visible(self.kb))
        self._constants, mrr = choose_constant_weights(visible, self.split.valid_sample(CHOOSING))
        return 1 - mrr

    def _learn(self, predicate: int, facts: FactIds) -> float:
        rules = [rule for template in UNARY for rule in mine_unary(self._edges, facts, template)]
        for length in range(1, longest(self._edges, self.config) + 1):
            rules += mine_chains(self._edges, facts, length, self.config)
        rules, facts = self._affordable(rules, facts)
        (objects, vague), (subjects, others) = (self._questions(facts, rules, forward=way) for way in (True, False))
        active = np.ones(len(rules))
        active[[*vague, *others]] = 0
        weights, bias, loss = fit([objects, subjects], active, self.config)
        self._bias[predicate] = bias
        self._tables.append(_table(predicate, rules, weights))
        return loss

    def _affordable(self, rules: list[Mined], facts: FactIds) -> tuple[list[Mined], FactIds]:
        """Drops rules with too many paths, then samples as many facts as fit the grounding budget."""
        ways = [ChainRows(self._edges, facts[:, place]) for place in (0, 2)]
        kept, paths = [], 0.0
        for rule in rules:
            if not rule.template.unary:
                bodies = (rule.body, turned(rule.body, self._edges.num_predicates))
                widths = [way.widest(body) for way, body in zip(ways, bodies, strict=True)]
                if max(widths) > MAX_PATHS:
                    continue
                paths += sum(widths)
            kept.append(rule)
        affordable = int(np.clip(MAX_GROUNDINGS / max(paths, 1), 1, len(facts)))
        return kept, facts[np.linspace(0, len(facts) - 1, affordable).astype(np.int64)]

    def _questions(self, facts: FactIds, rules: list[Mined], *, forward: bool) -> tuple[Questions, list[int]]:
        """(the features of one direction, with each fact hidden from its own question; the rules too vague to keep)."""
        edges, num_predicates = self._edges, self._edges.num_predicates
        (starts, answers), predicate = (facts[:, [0, 2]] if forward else facts[:, [2, 0]]).T, int(facts[0, 1])
        known = self._known[0 if forward else 1].mask(starts, facts[:, 1])
        known[np.arange(len(facts)), answers] = True
        away, back = (predicate, predicate + num_predicates)[:: 1 if forward else -1]
        chains, cells, vague = ChainRows(edges, starts, Hidden(away, answers)), [], []
        base, true = _Columns(edges.num_entities, len(rules)), np.zeros((len(facts), len(rules)))
        ways = [rule.body if forward else turned(rule.body, num_predicates) for rule in rules]
        for index in sorted(range(len(rules)), key=ways.__getitem__):
            template = rules[index].template
            if template.unary:
                if template.about_subject != forward:  # the other kind adds the same to every answer
                    atom = rules[index].body[0]
                    degrees = edges.degrees_by(atom)
                    base.set(index, evidence_of(degrees, template))
                    true[:, index] = evidence_of(degrees[answers] - (atom == back), template)
                continue
            found = chains.counts(ways[index]).tocoo()
            right, rivals = found.col == answers[found.row], ~known[found.row, found.col]
            if rivals.sum() > MAX_FIRED * len(facts):
                vague.append(index)
                continue
            true[found.row[right], index] = evidence_of(found.data[right], template)
            cells.append(cells_of(found.row[rivals], found.col[rivals], found.data[rivals], template, index))
        return collect(cells, base.table(), true, known), vague

    def _validate(self) -> dict[str, float]:
        facts, model = self.split.valid_sample(VALIDATION), self.model_on(self.split.visible(self.kb))
        return ranking_metrics(rank_facts(facts, model.kb_logits, known_filters(self.kb, "valid")))

    def _merged(self) -> RuleTable:
        tables = self._tables or [EMPTY]
        columns = {name: np.concatenate([getattr(table, name) for table in tables]) for name in COLUMNS[:4]}
        return RuleTable(**columns, bias=self._bias, constants=self._constants.copy())

    def model(self) -> RulesModel:
        return self.model_on(self.kb)

    def model_on(self, kb: FactsKB) -> RulesModel:
        """The rules learnt so far, applied to the facts of this KB."""
        return RulesModel(self.config, kb, self._merged())

    def checkpoint(self) -> Artifact:
        table = self._merged()
        tensors = {name: torch.from_numpy(getattr(table, name).copy()) for name in COLUMNS}
        return Artifact({"config": self.config.model_dump(mode="json"), "epoch": self.epoch}, tensors)

    def restore(self, checkpoint: Artifact) -> None:
        check_config(checkpoint, self.config)
        try:
            table = RuleTable(**{name: checkpoint.tensors[name].numpy() for name in COLUMNS})
            self.epoch = checkpoint.manifest["epoch"]
        except KeyError as error:
            raise ArtifactError(f"the checkpoint of mined rules has no {error}") from None
        self._tables, self._bias, self._constants = [table], table.bias.copy(), table.constants.copy()


def choose_constant_weights(model: RulesModel, facts: FactIds) -> tuple[Float[np.ndarray, " predicate"], float]:
    """(weights of rules with constants, their MRR on these facts).

    A predicate with few facts takes the weight that is best for all facts.
    """
    chosen = np.full(len(model.kb.predicates), DEFAULT_CONSTANT_WEIGHT)
    if not len(facts):
        return chosen, 1.0
    ranks = np.stack([1 / found for found in model.ranks_by_constants(facts, CONSTANT_WEIGHTS).values()])
    best = int(ranks.mean((1, 2)).argmax())
    chosen[:], reached = CONSTANT_WEIGHTS[best], ranks[best]
    for predicate, own in own_choices(ranks, facts[:, 1]).items():
        chosen[predicate] = CONSTANT_WEIGHTS[own]
        reached = np.where(facts[:, 1] == predicate, ranks[own], reached)
    return chosen, float(reached.mean())


def _table(predicate: int, rules: list[Mined], weights: NDArray[np.float64]) -> RuleTable:
    kept = [index for index in range(len(rules)) if weights[index] > MIN_WEIGHT]
    body = np.full((len(kept), MAX_LENGTH), PADDING, dtype=np.int64)
    for row, index in enumerate(kept):
        body[row, : len(rules[index].body)] = rules[index].body
    template = np.array([TEMPLATES.index(rules[index].template) for index in kept], dtype=np.int64)
    head = np.full(len(kept), predicate, dtype=np.int64)
    return RuleTable(head, template, body, weights[kept], NO_VALUES, NO_VALUES)


class _Columns:
    """A sparse table made of a few columns."""

    def __init__(self, num_rows: int, num_columns: int) -> None:
        self._shape = (num_rows, num_columns)
        self._cells: list[tuple[NDArray[np.int64], int, NDArray[np.float64]]] = []

    def set(self, column: int, values: NDArray[np.float64]) -> None:
        rows = np.flatnonzero(values)
        self._cells.append((rows, column, values[rows]))

    def table(self) -> sparse.csr_array:
        rows = np.concatenate([NO_IDS, *(rows for rows, _, _ in self._cells)])
        columns = np.concatenate([NO_IDS, *(np.full(len(rows), column) for rows, column, _ in self._cells)])
        values = np.concatenate([NO_VALUES, *(values for _, _, values in self._cells)])
        return sparse.csr_array((values, (rows, columns)), shape=self._shape)
