"""Asks versions the same questions from their KB's test split: how often is each right, where do they differ."""

import asyncio
import json
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import comb
from typing import Any

import numpy as np
from sqlalchemy.orm import Session

from ctp_core.kb.knowledge_base import FactIds, FactsKB, GraphsKB
from ctp_core.symbols import Fact
from service.db.tables import ModelVersion
from service.errors import TooMany, Unavailable
from service.http.places import Places
from service.kbs import repository as kbs
from service.models import repository
from service.models.schemas import Contest, Disagreement, GivenAnswer, GroupScores
from service.queries.batcher import MAX_BATCH, Batcher, Target
from service.queries.wire import Reply

SPLITS = ("test", "valid")
MAX_FACTS = 300_000  # largest KB that is read for its test facts; a larger one would block the API for seconds
MAX_CANDIDATES = 200  # answers searched for the first one that is not some other true fact
NO_SPLIT = "their KB has no test or valid split: upload it with some facts as `test`, and train on that KB"
UNANSWERABLE = 422  # status of a question that a model cannot be asked
EVERYTHING = "all"
ANSWER_SHARE = 0.8  # of the time of a comparison; the rest is for proofs
GOLDEN = (5**0.5 - 1) / 2  # its multiples, without their whole parts, fill 0 to 1 evenly


Goal = tuple[str | None, str | None, str | None]
Given = dict[str, Any] | None


class NotAnswered(Exception):
    """A model failed to answer, which does not count as a wrong answer."""


@dataclass(frozen=True)
class Outcome:
    """The answer that counts; `late` if the time was up before there was any."""

    first: Given
    late: bool = False


@dataclass(frozen=True)
class Trial:
    """A question with its expected answer; other true answers, `also_right`, are skipped."""

    group: str
    goal: Goal
    facts: tuple[Fact, ...]
    expected: Fact
    also_right: frozenset[Fact] = frozenset()

    def question(self, proofs: int) -> dict[str, Any]:
        top_k = min(MAX_CANDIDATES, 1 + len(self.also_right))
        asked = {
            "goal": list(self.goal),
            "facts": [list(fact) for fact in self.facts],
            "top_k": top_k,
            "proofs": proofs,
        }
        return {**asked, "depth": None, "exclude_known": False}

    def outcome(self, reply: Reply) -> Outcome:
        """Returns the best answer that is not in `also_right`.

        None if there is none, or if the model cannot be asked this, for example because it has never seen a name.
        Raises NotAnswered if the model failed to answer.
        """
        if isinstance(reply, dict):
            if reply["status"] != UNANSWERABLE:
                raise NotAnswered(reply["detail"])
            return Outcome(None)
        parsed = _parsed(reply)
        first = next((a for a in parsed["answers"] if _fact(a) not in self.also_right), None)
        return Outcome(first, late=parsed["truncated"] and not parsed["answers"])

    def about(self, answer: dict[str, Any]) -> "Trial":
        """Returns the question whether this answer holds, so that only its own proofs are searched."""
        return replace(self, goal=_fact(answer), also_right=frozenset())


def _parsed(reply: bytes) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(b"{%b}" % reply)
    return parsed


def _fact(answer: dict[str, Any]) -> Fact:
    return Fact(answer["subject"], answer["predicate"], answer["object"])


@dataclass(frozen=True)
class Prepared:
    """The questions for the models; if there are none, `note` says why."""

    split: str = ""
    trials: tuple[Trial, ...] = ()
    num_available: int = 0
    num_left_out: int = 0
    note: str | None = None


def prepare(session: Session, models: Sequence[ModelVersion], num_questions: int) -> Prepared:
    """Chooses questions that are evenly spread over the split, so that every length or predicate has its share."""
    if num_questions == 0:
        return Prepared(note="no questions were asked for")
    if len({model.kb_sha256 for model in models}) > 1:
        return Prepared(note="the models were trained on different KBs: train them on the same one")
    kb = repository.kb_of(session, models[0])
    if kb is None:
        return Prepared(note="their KB is not on this service: upload it to compare answers")
    split = next((name for name in SPLITS if kb.splits.get(name)), None)
    if split is None:
        return Prepared(note=NO_SPLIT)
    if kb.num_facts > MAX_FACTS:
        return Prepared(note=f"their KB has more than {MAX_FACTS} facts: use `ctp bench links`")
    loaded = kbs.read_kb(session, kb)
    trials = _graph_trials(loaded, split) if isinstance(loaded, GraphsKB) else _fact_trials(loaded, split)
    return choose(split, trials, num_questions)


def choose(split: str, trials: Sequence[Trial], num_questions: int) -> Prepared:
    """Chooses among the trials, without those whose expected answer may be crowded out by other true answers."""
    fair = [trial for trial in trials if len(trial.also_right) < MAX_CANDIDATES]
    if not fair:
        return Prepared(note=f"their {split} split has no question that can be asked fairly")
    step = max(1.0, len(fair) / num_questions)
    chosen = [fair[int(i * step)] for i in range(min(num_questions, len(fair)))]
    return Prepared(split, tuple(chosen), len(fair), len(trials) - len(fair))


def _graph_trials(kb: GraphsKB, split: str) -> list[Trial]:
    graphs = [graph for graph in kb.splits[split] if graph.label is not None]
    return [
        Trial(
            f"{len(graph.facts)} facts",
            (graph.subject, None, graph.object),
            graph.facts,
            Fact(graph.subject, graph.label or "", graph.object),
        )
        for graph in sorted(graphs, key=lambda graph: len(graph.facts))
    ]


def _fact_trials(kb: FactsKB, split: str) -> list[Trial]:
    """Makes two trials of each fact, one for either end, as the metrics do; sorted by predicate, then by end."""
    asked = [(fact, _goals(fact)[end]) for end in (0, 1) for fact in kb.facts(split)]
    known: dict[Goal, set[Fact]] = {goal: set() for _, goal in asked}
    for fact in _answers_to(kb, split):
        for goal in _goals(fact):
            if goal in known:
                known[goal].add(fact)
    asked.sort(key=lambda one: one[0].predicate)
    return [Trial(fact.predicate, goal, (), fact, frozenset(known[goal] - {fact})) for fact, goal in asked]


def _goals(fact: Fact) -> tuple[Goal, Goal]:
    return (fact.subject, fact.predicate, None), (None, fact.predicate, fact.object)


def _answers_to(kb: FactsKB, split: str) -> list[Fact]:
    """Returns the facts of the KB that answer any question of the split.

    Only these are decoded: decoding hundreds of thousands of facts would block other calls.
    """
    every, own = np.concatenate(list(kb.splits.values())), kb.splits[split]

    def pairs(ids: FactIds, end: int) -> FactIds:
        return ids[:, end] * len(kb.predicates) + ids[:, 1]

    wanted = [np.isin(pairs(every, end), pairs(own, end)) for end in (0, 2)]
    return [kb.fact(ids) for ids in every[wanted[0] | wanted[1]].tolist()]


@dataclass(frozen=True)
class Asking:
    """Asks models one batch at a time, so that questions of other callers are served in between.

    Replies are read in the threads of `comparing`: a batch of them may have megabytes.
    """

    batcher: Batcher
    comparing: Places
    request_id: str

    async def firsts(self, model: Target, trials: Sequence[Trial], proofs: int) -> list[Given]:
        found: list[Given] = []
        for start in range(0, len(trials), MAX_BATCH):
            some = trials[start : start + MAX_BATCH]
            outcomes = await self._outcomes(model, some, proofs)
            for place, outcome in enumerate(outcomes):
                if outcome.late:  # others in the batch may have used up the time: slow is not wrong
                    outcomes[place : place + 1] = await self._outcomes(model, [some[place]], proofs)
            found += [outcome.first for outcome in outcomes]
        return found

    async def _outcomes(self, model: Target, trials: Sequence[Trial], proofs: int) -> list[Outcome]:
        replies = await self.batcher.ask(model, [trial.question(proofs) for trial in trials], self.request_id)
        return await self.comparing.run(partial(_outcomes, model, trials, replies))

    async def explained(self, model: Target, trials: Sequence[Trial], answers: Sequence[Given]) -> list[Given]:
        """Returns the same answers, each with its best proof if there is one."""
        asked = [trial.about(answer) for trial, answer in zip(trials, answers, strict=True) if answer is not None]
        found = iter(await self.firsts(model, asked, proofs=1))
        return [answer and {**answer, "proofs": (next(found) or answer)["proofs"]} for answer in answers]


async def hold(
    prepared: Prepared, models: Sequence[Target], asking: Asking, num_shown: int
) -> tuple[Contest | None, str | None]:
    """Asks every model every question, then for proofs where they differ.

    Returns the contest about the questions that all models have answered, if there are any, and a note if the time was
    up or a model failed to answer before everything was asked.
    """
    seconds = asking.batcher.settings.compare_seconds
    answered: dict[int, list[Given]] = {}
    asking_all = _ask_all(prepared.trials, models, asking, answered)
    note = await _stopped(asking_all, ANSWER_SHARE * seconds, seconds)
    places = sorted(answered)
    if not places:
        return None, note
    asked = [prepared.trials[place] for place in places]
    answers = [[answered[place][number] for place in places] for number in range(len(models))]
    differing = _differing(asked, answers)
    trials = [asked[place] for place in differing[:num_shown]]
    shown = [[given[place] for place in differing[:num_shown]] for given in answers]
    unexplained = await _stopped(_explain(trials, shown, models, asking), (1 - ANSWER_SHARE) * seconds, seconds)
    disagreements = [_disagreement(trial, [given[place] for given in shown]) for place, trial in enumerate(trials)]
    contest = Contest(
        split=prepared.split,
        num_questions=len(asked),
        truncated=bool(note or unexplained),
        num_available=prepared.num_available,
        num_left_out=prepared.num_left_out,
        groups=_groups(asked, answers),
        num_disagreements=len(differing),
        disagreements=disagreements,
    )
    return contest, note or unexplained


async def _stopped(work: Coroutine[Any, Any, None], seconds: float, told_seconds: float) -> str | None:
    """Does the work for as long as the time allows; returns why it was not done to the end, if it was not."""
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        limit = f"{told_seconds:g} s (CTP_COMPARE_SECONDS)"
        return f"the models took more than {limit}: ask fewer `questions` or `disagreements`"
    except (TooMany, Unavailable, NotAnswered) as error:
        return str(error)
    return None


async def _ask_all(
    trials: Sequence[Trial], models: Sequence[Target], asking: Asking, answered: dict[int, list[Given]]
) -> None:
    """Notes the answers of all models in `answered`, by the place of the question, batch by batch.

    The questions are asked in an order of which every beginning is spread evenly over all groups.
    """
    order = sorted(range(len(trials)), key=lambda place: place * GOLDEN % 1.0)
    for start in range(0, len(order), MAX_BATCH):
        places = order[start : start + MAX_BATCH]
        some = [trials[place] for place in places]
        given = [await asking.firsts(model, some, proofs=0) for model in models]
        answered |= {place: [one[number] for one in given] for number, place in enumerate(places)}


async def _explain(
    trials: Sequence[Trial], answers: list[list[Given]], models: Sequence[Target], asking: Asking
) -> None:
    """Adds proofs to the answers, model by model."""
    for number, model in enumerate(models):
        answers[number] = await asking.explained(model, trials, answers[number])


def _outcomes(model: Target, trials: Sequence[Trial], replies: Sequence[Reply]) -> list[Outcome]:
    try:
        return [trial.outcome(reply) for trial, reply in zip(trials, replies, strict=True)]
    except NotAnswered as error:
        raise NotAnswered(f"{model.model_id} did not answer: {error}") from None


def _right(trial: Trial, answer: Given) -> bool:
    return answer is not None and _fact(answer) == trial.expected


def _differing(trials: Sequence[Trial], answers: Sequence[Sequence[Given]]) -> list[int]:
    """Returns the questions with different answers; those that some model answers correctly come first."""

    def shown(answer: Given) -> Fact | None:
        return None if answer is None else _fact(answer)

    places = [i for i in range(len(trials)) if len({shown(given[i]) for given in answers}) > 1]
    return sorted(places, key=lambda i: not any(_right(trials[i], given[i]) for given in answers))


def _groups(trials: Sequence[Trial], answers: Sequence[Sequence[Given]]) -> list[GroupScores]:
    """Scores all questions, then those of each length or predicate."""
    right = [[_right(trial, answer) for trial, answer in zip(trials, given, strict=True)] for given in answers]
    members: dict[str, list[int]] = {EVERYTHING: list(range(len(trials)))}
    for place, trial in enumerate(trials):
        members.setdefault(trial.group, []).append(place)
    return [
        GroupScores(
            name=name,
            num_questions=len(places),
            right=[sum(one[i] for i in places) / len(places) for one in right],
            p_values=[None, *(sign_test([(right[0][i], one[i]) for i in places]) for one in right[1:])],
        )
        for name, places in members.items()
    ]


def sign_test(pairs: Sequence[tuple[bool, bool]]) -> float:
    """Returns the two-sided p-value of McNemar's exact test, over the pairs (first is right, second is right)."""
    first = sum(a and not b for a, b in pairs)
    second = sum(b and not a for a, b in pairs)
    total = first + second
    tail = sum(comb(total, i) for i in range(min(first, second) + 1))
    return min(1.0, 2 * float(Fraction(tail, 2**total)))


def _disagreement(trial: Trial, answers: Sequence[Given]) -> Disagreement:
    return Disagreement(
        group=trial.group,
        goal=dict(zip(("subject", "predicate", "object"), trial.goal, strict=True)),
        facts=[list(fact) for fact in trial.facts],
        expected=str(trial.expected),
        answers=[_given(trial, answer) for answer in answers],
    )


def _given(trial: Trial, answer: Given) -> GivenAnswer:
    if answer is None:
        return GivenAnswer(answer=None, score=None, right=False, proof=None)
    proof = answer["proofs"][0]["text"] if answer["proofs"] else None
    return GivenAnswer(answer=str(_fact(answer)), score=answer["score"], right=_right(trial, answer), proof=proof)
