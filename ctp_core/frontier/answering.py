"""Asks many questions of a view, and scores facts from both of their sides.

    logit(s, p, o) = ½ · (logit of o as an answer to (s, p, ?) + logit of s as an answer to (o, p⁻¹, ?))

so that a fact has one score whichever place was asked for. A stated fact is scored as if it were not stated.
"""

from dataclasses import dataclass

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
    """Questions that were asked together, in rising order, and what they reached."""

    questions: Ids  # entity · atoms + atom
    reached: Reached
    traced: Traced | None  # None where there are too many questions to remember all steps

    def holds(self, questions: Ids) -> bool:
        place = np.minimum(np.searchsorted(self.questions, questions), len(self.questions) - 1)
        return bool((self.questions[place] == questions).all())


class Answering:
    """Questions against one view."""

    def __init__(self, network: FrontierNetwork, config: FrontierConfig, view: FactsView) -> None:
        device = next(network.parameters()).device
        self.network, self.config, self.view = network, config, view
        self.graph = Graph.of(view.edges, device)
        self._batches: list[Batch] = []

    def sides(self, facts: FactIds) -> Sided:
        """All facts from their subjects, then all of them from their objects."""
        subject, predicate, object_ = facts.T
        atoms = np.concatenate([predicate, predicate + self.graph.num_predicates])
        return Sided(np.concatenate([subject, object_]), atoms, np.concatenate([object_, subject]))

    def one_way(self, entity: Ids, atom: Ids) -> Float[np.ndarray, "question entity"]:
        """The logits of all answers to questions, from their own side alone."""
        found = np.empty((len(entity), self.graph.num_entities))
        size = self.config.at_once(self.graph.num_entities)
        for start in range(0, len(entity), size):
            rows = slice(start, start + size)
            asked = Asked(self._ids(entity[rows]), self._ids(atom[rows]))
            reached = self._propagate(asked)
            with torch.no_grad():
                found[rows] = logits(self.network, self.graph, asked, reached).cpu().numpy()
        return found

    def scores(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """The logits of facts, from both of their sides."""
        found, stated = self.bases(facts), self.view.edges.states(facts)
        questions = np.unique(self._numbers(self.sides(facts)))
        if len(questions) <= self.config.batch_size:  # asked for together, stated or not
            self._remembered(questions)
        found[~stated] += _mean(self._gains(self.sides(facts[~stated])))
        own, size = np.flatnonzero(stated), max(1, self.config.batch_size // 2)
        for start in range(0, len(own), size):
            rows = own[start : start + size]
            found[rows] = self.without(facts[rows], np.arange(len(rows)), NO_IDS, facts[:0])
        return found

    def _gains(self, side: Sided) -> Float[np.ndarray, " fact"]:
        """What the steps of each question add to the logit of its answer."""
        found, size = np.zeros(len(side.entity)), self.config.batch_size
        if not len(found):
            return found
        questions, question = np.unique(self._numbers(side), return_inverse=True)
        if len(questions) <= size:
            return self._gains_by(self._remembered(questions), side)
        order = np.argsort(question, kind="stable")
        for start in range(0, len(questions), size):
            first, last = np.searchsorted(question[order], (start, start + size))
            rows, some = order[first:last], questions[start : start + size]
            found[rows] = self._gains_by(Batch(some, self._propagate(self._asked(some)), None), side.of(rows))
        return found

    def _gains_by(self, batch: Batch, side: Sided) -> Float[np.ndarray, " fact"]:
        """The gain of each answer by its question, which is in the batch; 0 where it was not reached."""
        row = np.searchsorted(batch.questions, self._numbers(side))
        keys, reached = self._ids(row * self.graph.num_entities + side.answer), batch.reached
        if not len(reached.key):
            return np.zeros(len(keys))
        place = torch.searchsorted(reached.key, keys).clamp(max=len(reached.key) - 1)
        found = torch.where(reached.key[place] == keys, reached.gain[place], 0.0)
        return np.asarray(found.double().cpu().numpy())

    def without(self, facts: FactIds, which: Ids, removed_item: Ids, removed: FactIds) -> Float[np.ndarray, " item"]:
        """The logits of facts[which], each as if neither it nor what is `removed` for it were stated."""
        gains = self.replayed(facts, which, removed_item, removed).gain.double().cpu().numpy()
        return np.asarray(self.bases(facts)[which] + _mean(gains))

    def bases(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """What the logits would be if no step reached anything."""
        side, own = self.sides(facts), self.view.edges.states(facts)
        atom, answer, stated = (self._ids(one) for one in (side.atom, side.answer, np.tile(own, 2).astype(np.int64)))
        common = torch.log1p((self.graph.common(atom, answer) - stated).float())
        with torch.no_grad():
            return _mean(self.network.base(atom, common).double().cpu().numpy())

    def replayed(self, facts: FactIds, which: Ids, removed_item: Ids, removed: FactIds) -> Replayed:
        """Takes the steps again that lead to the answers of `without`: from all subjects, then from all objects."""
        sizes, count = (self.graph.num_entities, self.graph.num_predicates), len(which)
        own = np.flatnonzero(self.view.edges.states(facts)[which])
        item = np.concatenate([removed_item, own])
        keys = np.concatenate([fact_keys(removed, *sizes), fact_keys(facts[which[own]], *sizes)])
        side = self.sides(facts[which])
        questions = self._numbers(side)
        batch = self._remembered(np.unique(questions))
        assert batch.traced is not None
        wanted = Wanted(
            self._ids(np.searchsorted(batch.questions, questions)),
            self._ids(side.answer),
            self._ids(np.concatenate([item, item + count])),
            self._ids(np.tile(keys, 2)),
        )
        with torch.no_grad():
            return replay(self.network, self.graph, batch.traced, wanted)

    def _remembered(self, questions: Ids) -> Batch:
        """A batch with the steps of these questions, which are in rising order: an earlier one, or a new one."""
        for batch in self._batches:
            if batch.holds(questions):
                return batch
        asked = self._asked(questions)
        reached = self._propagate(asked, traced=True)
        self._batches = [Batch(questions, reached, Traced(asked, reached.steps)), *self._batches[: REMEMBERED - 1]]
        return self._batches[0]

    def _asked(self, questions: Ids) -> Asked:
        entity, atom = np.divmod(questions, 2 * self.graph.num_predicates)
        return Asked(self._ids(entity), self._ids(atom))

    def _numbers(self, side: Sided) -> Ids:
        return side.entity * 2 * self.graph.num_predicates + side.atom

    def _propagate(self, asked: Asked, *, traced: bool = False) -> Reached:
        """Raises OutOfTime once the view has expired."""
        look(self.view.expired)
        with torch.no_grad():
            return propagate(self.network, self.graph, asked, self.config, traced=traced)

    def _ids(self, ids: Ids) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(ids)).to(self.graph.device)


def _mean(both: Float[np.ndarray, " side"]) -> Float[np.ndarray, " fact"]:
    """The mean of what both sides say, where all that the subjects say comes first."""
    return np.asarray(both.reshape(2, -1).mean(0))
