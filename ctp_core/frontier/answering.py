"""Asks many questions of a view, and scores facts from both of their sides.

    logit(s, p, o) = ½ · (logit of o as an answer to (s, p, ?) + logit of s as an answer to (o, p⁻¹, ?))

so that a fact has one score whichever place was asked for. A stated fact is scored as if it were not stated.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from ctp_core.base.deadline import look
from ctp_core.base.facts_model import FactsView
from ctp_core.frontier.config import FrontierConfig
from ctp_core.frontier.graph import Graph
from ctp_core.frontier.network import FrontierNetwork
from ctp_core.frontier.propagation import Asked, Reached, logits, propagate
from ctp_core.frontier.replay import Replayed, Traced, Wanted, replay
from ctp_core.kb.knowledge_base import FactIds, fact_keys
from ctp_core.shapes import Float

REMEMBERED = 4  # batches of questions whose steps are kept: an answer is explained by the steps that found it
Ids = NDArray[np.int64]
NO_IDS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Sided:
    """Facts asked for from one side: (entity, atom, ?) has the answer."""

    entity: Ids
    atom: Ids
    answer: Ids

    def of(self, rows: Ids) -> "Sided":
        return Sided(self.entity[rows], self.atom[rows], self.answer[rows])


@dataclass(frozen=True)
class Batch:
    """Questions that were asked together: (entity, atom) of each in rising order, and what they reached."""

    questions: Ids  # entity · atoms + atom
    reached: Reached
    traced: Traced

    def rows(self, questions: Ids) -> Ids | None:
        """Which question each of these is; None where one is not among them."""
        place = np.minimum(np.searchsorted(self.questions, questions), len(self.questions) - 1)
        return place if (self.questions[place] == questions).all() else None


class Answering:
    """Questions against one view."""

    def __init__(self, network: FrontierNetwork, config: FrontierConfig, view: FactsView) -> None:
        device = next(network.parameters()).device
        self.network, self.config, self.view = network, config, view
        self.graph = Graph.of(view.edges, device)
        self._batches: list[Batch] = []

    def sides(self, facts: FactIds) -> tuple[Sided, Sided]:
        """The same facts from their subjects and from their objects."""
        subject, predicate, object_ = facts.T
        return Sided(subject, predicate, object_), Sided(object_, predicate + self.graph.num_predicates, subject)

    def one_way(self, entity: Ids, atom: Ids) -> Float[np.ndarray, "question entity"]:
        """The logits of all answers to questions, from their own side alone."""
        found = np.empty((len(entity), self.graph.num_entities))
        size = self.config.at_once(self.graph.num_entities)
        for start in range(0, len(entity), size):
            rows = slice(start, start + size)
            asked = Asked(self._ids(entity[rows]), self._ids(atom[rows]))
            # One question is somebody's, who may want to know why.
            reached = self._batch(entity, atom).reached if len(entity) == 1 else self._propagate(asked)
            found[rows] = logits(self.network, self.graph, asked, reached).cpu().numpy()
        return found

    def scores(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """The logits of facts, from both of their sides."""
        found, stated = self.bases(facts), self.view.edges.states(facts)
        for side in self.sides(facts[~stated]):
            found[~stated] += self._gains(side) / 2
        own = np.flatnonzero(stated)
        for start in range(0, len(own), self.config.batch_size):
            rows = own[start : start + self.config.batch_size]
            found[rows] = self.without(facts[rows], np.arange(len(rows)), NO_IDS, facts[:0])
        return found

    def _gains(self, side: Sided) -> Float[np.ndarray, " fact"]:
        """What the steps of each question add to the logit of its answer."""
        found, size = np.zeros(len(side.entity)), self.config.batch_size
        questions, question = np.unique(self._numbers(side), return_inverse=True)
        order = np.argsort(question, kind="stable")
        starts = np.searchsorted(question[order], np.arange(0, len(questions) + size, size))
        for first, last in pairwise(starts.tolist()):
            rows = order[first:last]
            part = side.of(rows)
            few = len(questions) <= size
            entity, atom = np.divmod(np.unique(self._numbers(part)), 2 * self.graph.num_predicates)
            if few:
                reached = self._batch(entity, atom).reached
            else:
                reached = self._propagate(Asked(self._ids(entity), self._ids(atom)))
            row = question[rows] - question[rows[0]] if len(rows) else NO_IDS
            found[rows] = _gain_of(reached, self._ids(row * self.graph.num_entities + part.answer))
        return found

    def without(self, facts: FactIds, which: Ids, removed_item: Ids, removed: FactIds) -> Float[np.ndarray, " item"]:
        """The logits of facts[which], each as if neither it nor what is `removed` for it were stated."""
        gains = [one.gain.double().cpu().numpy() for one in self.replayed(facts, which, removed_item, removed)]
        return np.asarray(self.bases(facts)[which] + sum(gains) / 2)

    def bases(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """What the logits would be if no step reached anything."""
        own = self.view.edges.states(facts).astype(np.int64)
        total = np.zeros(len(facts))
        for side in self.sides(facts):
            atom, answer, stated = (self._ids(one) for one in (side.atom, side.answer, own))
            common = torch.log1p((self.graph.common(atom, answer) - stated).float())
            total += self.network.base(atom, common).double().cpu().numpy() / 2
        return total

    def replayed(self, facts: FactIds, which: Ids, removed_item: Ids, removed: FactIds) -> Iterator[Replayed]:
        """Both sides of `without`, the subject's first; each takes the steps again that lead to the answers."""
        sizes = (self.graph.num_entities, self.graph.num_predicates)
        own = np.flatnonzero(self.view.edges.states(facts)[which])
        item = np.concatenate([removed_item, own])
        keys = np.concatenate([fact_keys(removed, *sizes), fact_keys(facts[which[own]], *sizes)])
        for side in self.sides(facts):
            traced, rows = self.traced(side)
            yield replay(
                self.network,
                self.graph,
                traced,
                Wanted(self._ids(rows[which]), self._ids(side.answer[which]), self._ids(item), self._ids(keys)),
            )

    def traced(self, side: Sided) -> tuple[Traced, Ids]:
        """The steps of the questions of some facts, and which question each fact belongs to."""
        questions = self._numbers(side)
        for batch in self._batches:
            rows = batch.rows(questions)
            if rows is not None:
                return batch.traced, rows
        distinct, rows = np.unique(questions, return_inverse=True)
        return self._batch(*np.divmod(distinct, 2 * self.graph.num_predicates)).traced, rows

    def _batch(self, entity: Ids, atom: Ids) -> Batch:
        """Asks some questions, in rising order, and remembers the steps."""
        questions = entity * 2 * self.graph.num_predicates + atom
        for batch in self._batches:
            if np.array_equal(batch.questions, questions):
                return batch
        asked = Asked(self._ids(entity), self._ids(atom))
        reached = self._propagate(asked, traced=True)
        self._batches = [Batch(questions, reached, Traced(asked, reached.steps)), *self._batches[: REMEMBERED - 1]]
        return self._batches[0]

    def _numbers(self, side: Sided) -> Ids:
        return side.entity * 2 * self.graph.num_predicates + side.atom

    def _propagate(self, asked: Asked, *, traced: bool = False) -> Reached:
        """Raises OutOfTime once the view has expired."""
        look(self.view.expired)
        with torch.no_grad():
            return propagate(self.network, self.graph, asked, self.config, traced=traced)

    def _ids(self, ids: Ids) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(ids)).to(self.graph.device)


def _gain_of(reached: Reached, keys: torch.Tensor) -> Float[np.ndarray, " fact"]:
    """The gain of each key, 0 where it was not reached."""
    if not len(reached.key):
        return np.zeros(len(keys))
    place = torch.searchsorted(reached.key, keys).clamp(max=len(reached.key) - 1)
    found = torch.where(reached.key[place] == keys, reached.gain[place], 0.0)
    return np.asarray(found.double().cpu().numpy())
