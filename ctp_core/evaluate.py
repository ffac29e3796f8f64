"""How good a model is on a split of a KB: by predicate, by direction or length, and how well its scores are calibrated.

On facts every fact is asked for twice, once for its object and once for its subject, and the right answer is ranked
among all entities that no split states. On graphs the label of each pair is asked for.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from ctp_core.base.calibration import answers_of
from ctp_core.base.evaluation import ASKED, filters_by, rank_facts, ranking_metrics
from ctp_core.base.facts_model import NO_FACTS, FactsModel
from ctp_core.base.goals import GoalIds, Score
from ctp_core.base.graph_examples import SCORED_AT_ONCE, Examples, read_graphs, understood
from ctp_core.base.graphs_model import GraphScorer, GraphsModel
from ctp_core.base.model import Model
from ctp_core.base.progress import OnPart, unheard
from ctp_core.base.reliability import expected_calibration_error, reliability
from ctp_core.errors import BadQuestion, DataError
from ctp_core.kb.knowledge_base import SPLITS, FactIds, Graph, GraphsKB, KnowledgeBase
from ctp_core.kb.splits import FactsSplit

Metrics = dict[str, float]
MOST_GROUPS = 1000  # predicates, or lengths, that are told of: those with most questions
SEED = 0  # of the sample where only some are asked for


@dataclass(frozen=True)
class Group:
    """The figures of some of the questions; `num_items` counts their facts or graphs."""

    name: str
    num_items: int
    metrics: Metrics


@dataclass(frozen=True)
class Evaluation:
    """What a model reached on the facts or graphs of a split. `values` is this as JSON."""

    num_items: int  # facts or graphs that were asked for
    num_available: int  # in the split
    num_left_out: int  # of them, because the model knows nothing of their predicate
    metrics: Metrics
    by_predicate: Sequence[Group]
    by_direction: Sequence[Group]  # facts: which place was asked for
    by_length: Sequence[Group]  # graphs: by number of facts
    unseen: Group  # facts about entities, or graphs with predicates, that are not among the training data
    calibration: dict[str, Any] | None  # None for a model that was never calibrated

    def values(self) -> dict[str, Any]:
        def told(groups: Sequence[Group]) -> list[dict[str, Any]]:
            return [dict(vars(group)) for group in groups]

        groups = {name: told(getattr(self, name)) for name in ("by_predicate", "by_direction", "by_length")}
        return {**vars(self), **groups, "unseen": dict(vars(self.unseen))}


def evaluate(
    model: Model, kb: KnowledgeBase, split: str, limit: int | None = None, on_part: OnPart = unheard
) -> Evaluation:
    """Asks for the facts or graphs of a split, or for a sample of `limit` of them that is always the same.

    A model of facts must stand on `kb` already (`Model.on`). Raises DataError where the split is empty.
    """
    with torch.no_grad():
        if isinstance(model, FactsModel):
            return _facts(model, len(kb.splits.get(split, ())), split, limit, on_part)
        if not isinstance(model, GraphsModel) or not isinstance(kb, GraphsKB):
            raise BadQuestion("a model of graphs cannot be evaluated on a KB of facts: name a KB of graphs in `kb`")
        return _graphs(model, kb.splits.get(split, ()), split, limit, on_part)


def _empty(split: str) -> DataError:
    return DataError(f"split {split!r} of the KB has nothing that this model can be asked for")


# Facts


class _Counted:
    """A score that tells how many questions it has answered."""

    def __init__(self, score: Score, total: int, on_part: OnPart) -> None:
        self.score, self.total, self.on_part, self.done = score, total, on_part, 0

    def __call__(self, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
        scores = self.score(goals)
        self.done += len(goals)
        self.on_part(self.done, self.total)
        return scores


def _facts(model: FactsModel, available: int, split: str, limit: int | None, on_part: OnPart) -> Evaluation:
    kb = model.kb
    every = kb.splits.get(split, NO_FACTS)
    if not len(every):
        raise _empty(split)
    facts = FactsSplit(every[:0], every).valid_sample(limit or len(every))
    calibrated = _num_questions(facts) if model.calibration is not None else 0
    score = _Counted(model.kb_logits, len(ASKED) * len(facts) + calibrated, on_part)
    ranks = rank_facts(facts, score, filters_by(kb, SPLITS)).reshape(len(ASKED), -1)
    seen = np.isin(facts[:, [0, 2]], np.unique(kb.splits.get("train", NO_FACTS)[:, [0, 2]])).all(axis=1)
    return Evaluation(
        len(facts),
        available,
        available - len(every),
        ranking_metrics(ranks.ravel()),
        _by_predicate(facts, ranks, kb.predicates.names),
        [_ranked(place.name.lower(), ranks[way]) for way, place in enumerate(ASKED)],
        [],
        _ranked("unseen entities", ranks[:, ~seen]),
        _calibration(model, score, split, len(facts)),
    )


def _num_questions(facts: FactIds) -> int:
    return sum(len(np.unique(GoalIds.hiding(facts, place).facts, axis=0)) for place in ASKED)


def _ranked(name: str, ranks: Float[np.ndarray, "... fact"]) -> Group:
    return Group(name, ranks.shape[-1], ranking_metrics(ranks.ravel()))


def _by_predicate(facts: FactIds, ranks: Float[np.ndarray, "way fact"], names: Sequence[str]) -> list[Group]:
    """The predicates with most facts first."""
    order = np.argsort(facts[:, 1], kind="stable")
    found, starts, counts = np.unique(facts[order, 1], return_index=True, return_counts=True)
    most = np.argsort(-counts, kind="stable")[:MOST_GROUPS].tolist()
    rows = {at: order[starts[at] : starts[at] + counts[at]] for at in most}
    return [_ranked(names[found[at]], ranks[:, rows[at]]) for at in most]


def _calibration(model: FactsModel, score: Score, split: str, most: int) -> dict[str, Any] | None:
    if model.calibration is None:
        return None
    found = answers_of(lambda goals: model.to_calibrate(score(goals)), model.calibration, model.kb, split, most)
    return _reliability(*found)


def _reliability(
    scores: Float[np.ndarray, " answer"],
    true: Bool[np.ndarray, " answer"],
    weights: Float[np.ndarray, " answer"] | None = None,
) -> dict[str, Any]:
    bins = [one._asdict() for one in reliability(scores, true, weights)]
    return {"ece": expected_calibration_error(scores, true, weights), "bins": bins}


# Graphs


@dataclass(frozen=True)
class _Labelled:
    """Graphs of one form with one label, and what the model makes of them."""

    label: str
    length: int
    count: int
    right: float  # the part of them that is labelled rightly: of k equal best labels the k-th part
    score: float  # of the best label
    strange: bool  # it has a predicate or a label that the model was not trained on


def _graphs(model: GraphsModel, graphs: Sequence[Graph], split: str, limit: int | None, on_part: OnPart) -> Evaluation:
    labelled = [graph for graph in graphs if graph.label is not None]
    if not labelled:
        raise _empty(split)
    asked = _sample(labelled, limit or len(labelled))
    rows = _answered(model, asked, on_part)
    weights = np.array([row.count for row in rows], dtype=np.float64)
    scores, right = np.array([row.score for row in rows]), np.array([row.right for row in rows])
    return Evaluation(
        len(asked),
        len(labelled),
        0,
        _accuracy(rows),
        _grouped(rows, lambda row: row.label),
        [],
        sorted(_grouped(rows, lambda row: str(row.length)), key=lambda group: int(group.name)),
        _counted("unseen predicates", [row for row in rows if row.strange]),
        _reliability(scores, right == 1.0, weights),
    )


def _sample(graphs: Sequence[Graph], size: int) -> Sequence[Graph]:
    if len(graphs) <= size:
        return graphs
    chosen: Int[np.ndarray, " graph"] = np.sort(np.random.default_rng(SEED).permutation(len(graphs))[:size])
    return [graphs[at] for at in chosen.tolist()]


def _answered(model: GraphsModel, graphs: Sequence[Graph], on_part: OnPart) -> list[_Labelled]:
    """One length after another, because a batch of a prover is proved as deep as its longest graph needs."""
    by_kind: dict[tuple[int, bool], list[Graph]] = defaultdict(list)
    known, targets = set(model.scorer.predicates), set(model.scorer.targets)
    for graph in graphs:
        strange = graph.label not in targets or any(fact.predicate not in known for fact in graph.facts)
        by_kind[len(graph.facts), strange].append(graph)
    rows: list[_Labelled] = []
    done = 0
    for (length, strange), some in sorted(by_kind.items()):
        for row in _scored(model, some, length, strange):
            rows.append(row)
            done += row.count
            on_part(done, len(graphs))
    return rows


def _scored(model: GraphsModel, graphs: Sequence[Graph], length: int, strange: bool) -> Iterator[_Labelled]:
    """Isomorphic graphs are scored once. Facts with unknown predicates are ignored, as in answers; a graph that loses
    its pair by that counts as wrong."""
    scorer: GraphScorer = model.scorer
    readable = understood(graphs, scorer.predicates)
    forms = read_graphs(readable, merge=True)
    examples = Examples.of(forms, scorer, 1.0)
    lost = Counter(str(graph.label) for graph in graphs) - Counter(str(graph.label) for graph in readable)
    yield from (_Labelled(label, length, count, 0.0, 0.0, strange) for label, count in lost.items())
    columns = {name: at for at, name in enumerate(scorer.targets)}
    for start in range(0, len(forms), SCORED_AT_ONCE):
        batch = scorer.stack(examples.instances[start : start + SCORED_AT_ONCE], model.depth)
        for form, scores in zip(forms[start : start + SCORED_AT_ONCE], scorer.scores(batch).tolist(), strict=True):
            best = max(scores)
            shared = scores.count(best) if best > 0 else 0
            for label, count in form.labels:
                wins = shared > 0 and label in columns and scores[columns[label]] == best
                yield _Labelled(label, length, count, 1 / shared if wins else 0.0, best, strange)


def _grouped(rows: Sequence[_Labelled], name: Callable[[_Labelled], str]) -> list[Group]:
    """The groups with most graphs first."""
    groups: dict[str, list[_Labelled]] = defaultdict(list)
    for row in rows:
        groups[name(row)].append(row)
    told = [_counted(name, some) for name, some in groups.items()]
    return sorted(told, key=lambda group: (-group.num_items, group.name))[:MOST_GROUPS]


def _counted(name: str, rows: Sequence[_Labelled]) -> Group:
    return Group(name, sum(row.count for row in rows), _accuracy(rows))


def _accuracy(rows: Sequence[_Labelled]) -> Metrics:
    total = sum(row.count for row in rows)
    return {"accuracy": sum(row.count * row.right for row in rows) / total} if total else {}
