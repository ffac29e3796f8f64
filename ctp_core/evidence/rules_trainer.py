"""Mines rules and fits their weights, one predicate an epoch: every sampled fact against all entities, both ways."""

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy import sparse

from ctp_core.artifact import Artifact
from ctp_core.base.edges import EdgeList
from ctp_core.base.evaluation import KnownFilter, known_filters, rank_facts, ranking_metrics
from ctp_core.base.facts_trainer import CalibratedTrainer
from ctp_core.base.progress import OnPart, OnStep, Progress, ignore, parts_of, unheard
from ctp_core.base.shrinkage import shrunk_choices
from ctp_core.base.training_state import check_config
from ctp_core.errors import ArtifactError
from ctp_core.evidence.body_tree import turned
from ctp_core.evidence.config import CHOOSING_FACTS, MAX_GROUNDINGS, VALIDATION, RulesConfig
from ctp_core.evidence.predicate_rules import evidence_of
from ctp_core.evidence.rules_arrays import PADDING, TEMPLATES, RuleTable
from ctp_core.evidence.rules_chains import ChainRows, Hidden
from ctp_core.evidence.rules_fit import Questions, cells_of, collect, fit
from ctp_core.evidence.rules_mining import Mined, longest, mine_chains, mine_unary
from ctp_core.evidence.rules_model import COLUMNS, RulesModel
from ctp_core.kb.knowledge_base import FactIds, FactsKB
from ctp_core.kb.splits import FactsSplit, affordable
from ctp_core.rules import UNARY

MIN_WEIGHT = 1e-3  # a weaker rule is forgotten
MAX_FIRED = 500  # entities that a rule may propose per question; a vaguer one says little and costs much
MAX_PATHS = 5 * MAX_FIRED  # so many paths per question lead to more entities than that, or cost too much to tell
MIN_GROUNDINGS = 1e4  # of a predicate, however many others there are
ENOUGH_FACTS = 300  # of a predicate: so many are fitted before vague rules are
SAMPLED = 50  # facts ranked now and then, to be shown
# Shares of the work, by which the time left is told: that of all predicates, and all before the last validation; of a
# predicate, that of mining.
LEARNING, VALIDATING, MINING = 0.75, 0.87, 0.4
CONSTANT_WEIGHTS = (0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 36.0)  # tried on validation facts
DEFAULT_CONSTANT_WEIGHT = 4.0  # without validation facts
NO_IDS, NO_VALUES = np.zeros(0, dtype=np.int64), np.zeros(0)
MAX_LENGTH = 5
EMPTY = RuleTable(NO_IDS, NO_IDS, np.zeros((0, MAX_LENGTH), dtype=np.int64), NO_VALUES, NO_VALUES, NO_VALUES)


class RulesTrainer(CalibratedTrainer[RulesModel]):
    """Predicates in the order of their number of facts; in a last epoch, the weights of rules with constants."""

    def __init__(self, config: RulesConfig, kb: FactsKB, device: torch.device) -> None:
        del device
        self.config, self.kb, self.epoch = config, kb, 0
        self.split = FactsSplit.of(kb)
        sizes = (len(kb.entities), len(kb.predicates))
        self._edges = EdgeList(self.split.train, *sizes)
        predicates, counts = np.unique(self.split.train[:, 1], return_counts=True)
        self._goals = predicates[np.argsort(-counts, kind="stable")]
        self._parts = np.array_split(self._goals, min(config.epochs, len(self._goals)))
        self.epochs = len(self._parts) + config.constants
        efforts = np.zeros(sizes[1])
        efforts[predicates] = np.sqrt(counts)
        self._efforts = efforts / efforts.sum()  # a predicate's part of the work
        self._constants = np.zeros(sizes[1])
        self._known = [KnownFilter([self.split.train], *sizes, subjects=subjects) for subjects in (False, True)]
        self._tables: list[RuleTable] = []
        # Until it is learnt, a predicate is taken to hold of one pair among all.
        self._bias = np.full(sizes[1], -2 * np.log(sizes[0]))

    @property
    def finished(self) -> bool:
        return self.epoch >= self.epochs

    def train_epoch(self, on_step: OnStep = ignore) -> Progress:
        if self.epoch < len(self._parts):
            self._learn_part(on_step)
        else:
            weighing = self._progress("constants", LEARNING)
            on_step(weighing)
            self._weigh_constants(parts_of("constants", weighing, on_step))
        self.epoch += 1
        if not self.finished:
            return self._progress("fitting", self._learnt(0), 1)
        validating = self._progress("validation", VALIDATING)
        on_step(validating)
        metrics = self._validate(VALIDATION, parts_of("validation", validating, on_step))
        return replace(self._progress("validation", 1.0, 1), metrics=metrics)

    def _progress(self, phase: str, done: float, step: int = 0, steps: int = 1) -> Progress:
        """Without a loss: that of one predicate says nothing about the next."""
        return Progress(self.epoch, self.epochs, step, steps, None, phase=phase, done=done)

    def _learnt(self, step: float) -> float:
        """The share of all work that is done after `step` predicates of this epoch."""
        behind = np.concatenate([NO_IDS, *self._parts[: self.epoch]])
        now = self._efforts[self._parts[self.epoch]] if self.epoch < len(self._parts) else NO_VALUES
        made = np.clip(step - np.arange(len(now)), 0, 1) * now
        return float(LEARNING * (self._efforts[behind].sum() + made.sum()))

    def sampled_metrics(self) -> dict[str, float]:
        return self._validate(SAMPLED)

    def _learn_part(self, on_step: OnStep) -> None:
        """Learns the predicates of this epoch."""
        part = self._parts[self.epoch].tolist()
        for step, predicate in enumerate(part):
            on_step(self._progress("mining", self._learnt(step), step, len(part)))
            facts = self._sampled(predicate)
            rules, facts = self._affordable(self._mine(facts), facts)
            on_step(self._progress("fitting", self._learnt(step + MINING), step, len(part)))
            self._fit(predicate, rules, facts)
            on_step(self._progress("fitting", self._learnt(step + 1), step + 1, len(part)))

    def _sampled(self, predicate: int) -> FactIds:
        """Facts of a predicate in random order."""
        facts = self.split.train[self.split.train[:, 1] == predicate]
        choose = np.random.default_rng((self.config.seed, predicate))
        return np.asarray(facts[choose.permutation(len(facts))[: self.config.sample]])

    def _weigh_constants(self, on_part: OnPart) -> None:
        """Chooses the weights of rules with constants on validation facts."""
        self._constants[:] = 1.0
        visible = self.model_on(self.split.visible(self.kb))
        facts = self.split.valid_sample(affordable(CHOOSING_FACTS, len(self.kb.entities)))
        self._constants, _ = choose_constant_weights(visible, facts, on_part)

    def _mine(self, facts: FactIds) -> list[Mined]:
        rules = [rule for template in UNARY for rule in mine_unary(self._edges, facts, template)]
        lengths = range(1, longest(self._edges, self.config) + 1)
        most = self.config.mined_paths * self._efforts[facts[0, 1]] / len(lengths)
        for length in lengths:
            rules += mine_chains(self._edges, facts, length, self.config, most)
        return rules

    def _fit(self, predicate: int, rules: list[Mined], facts: FactIds) -> None:
        (objects, vague), (subjects, others) = (self._questions(facts, rules, forward=way) for way in (True, False))
        active = np.ones(len(rules))
        active[[*vague, *others]] = 0
        weights, bias, _ = fit([objects, subjects], active, self.config)
        self._bias[predicate] = bias
        self._tables.append(_table(predicate, rules, weights))

    def _affordable(self, rules: list[Mined], facts: FactIds) -> tuple[list[Mined], FactIds]:
        """Drops the vaguest rules until enough facts fit the grounding budget, then takes as many facts as do."""
        allowed = self.config.groundings * self._efforts[facts[0, 1]]
        allowed = min(MAX_GROUNDINGS, max(MIN_GROUNDINGS, allowed))
        widths = self._widths(rules, facts)
        vagueness = widths / np.maximum([rule.share for rule in rules], 1 / len(facts))
        order = np.argsort(vagueness, kind="stable")
        total = np.cumsum(widths[order])
        fits = (widths[order] <= 2 * MAX_PATHS) & (total * min(ENOUGH_FACTS, len(facts)) <= allowed)
        kept = np.sort(order[fits])
        asked = int(np.clip(allowed / max(widths[kept].sum(), 1), 1, len(facts)))
        return [rules[index] for index in kept.tolist()], facts[:asked]

    def _widths(self, rules: list[Mined], facts: FactIds) -> Float[np.ndarray, " rule"]:
        """Paths per question by each rule, in both directions; more than any rule may have where one has too many."""
        facts = facts[:ENOUGH_FACTS]
        widths, chains = np.zeros(len(rules)), [i for i, rule in enumerate(rules) if not rule.template.unary]
        for way, place in enumerate((0, 2)):
            rows = ChainRows(self._edges, facts[:, place])
            bodies = {i: turned(rules[i].body, self._edges.num_predicates) if way else rules[i].body for i in chains}
            for index in sorted(chains, key=bodies.__getitem__):
                width = rows.widest(bodies[index])
                widths[index] += width if width <= MAX_PATHS else np.inf
        return widths

    def _questions(self, facts: FactIds, rules: list[Mined], *, forward: bool) -> tuple[Questions, list[int]]:
        """(the features of one direction, with each fact hidden from its own question; the rules too vague to keep)."""
        edges, num_predicates = self._edges, self._edges.num_predicates
        (starts, answers), predicate = (facts[:, [0, 2]] if forward else facts[:, [2, 0]]).T, int(facts[0, 1])
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
            if found.nnz > MAX_FIRED * len(facts):
                vague.append(index)
                continue
            right = found.col == answers[found.row]
            true[found.row[right], index] = evidence_of(found.data[right], template)
            cells.append(cells_of(found.row, found.col, found.data, template, index))
        known = self._known_answers(facts, forward=forward)
        return collect(cells, base.table(), true, known), vague

    def _known_answers(self, facts: FactIds, *, forward: bool) -> sparse.csr_array:
        """[question, entity]: the true answers, among them the one asked for."""
        question, entity = self._known[0 if forward else 1].known(facts[:, 0 if forward else 2], facts[:, 1])
        shape = (len(facts), self._edges.num_entities)
        return sparse.csr_array((np.ones(len(question)), (question, entity)), shape=shape)

    def _validate(self, num_facts: int, on_part: OnPart = unheard) -> dict[str, float]:
        facts = self.split.valid_sample(affordable(num_facts, len(self.kb.entities)))
        model = self.model_on(self.split.visible(self.kb))
        return ranking_metrics(rank_facts(facts, model.kb_logits, known_filters(self.kb, "valid"), on_part))

    def table(self) -> RuleTable:
        """The rules learnt so far."""
        tables = self._tables or [EMPTY]
        columns = {name: np.concatenate([getattr(table, name) for table in tables]) for name in COLUMNS[:4]}
        return RuleTable(**columns, bias=self._bias, constants=self._constants.copy())

    def model_on(self, kb: FactsKB) -> RulesModel:
        """The rules learnt so far, applied to the facts of this KB."""
        return RulesModel(self.config, kb, self.table())

    def checkpoint(self) -> Artifact:
        table = self.table()
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


def choose_constant_weights(
    model: RulesModel, facts: FactIds, on_part: OnPart = unheard
) -> tuple[Float[np.ndarray, " predicate"], float]:
    """(weights of rules with constants, their MRR on these facts).

    The weight of a predicate is shrunk towards the one that is best for all facts.
    """
    num_predicates = len(model.kb.predicates)
    if not len(facts):
        return np.full(num_predicates, DEFAULT_CONSTANT_WEIGHT), 1.0
    ranks = np.stack([1 / found for found in model.ranks_by_constants(facts, CONSTANT_WEIGHTS, on_part).values()])
    chosen = shrunk_choices(ranks, facts[:, 1], num_predicates)
    reached = ranks[chosen[facts[:, 1]], :, np.arange(len(facts))]
    return np.array(CONSTANT_WEIGHTS)[chosen], float(reached.mean())


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
