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
from service.facts.files import KbFiles
from service.http.places import Places
from service.kbs.whole import KbRows
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
class ContestQuestion:
    """A question with its expected answer; other true answers, `also_right`, are skipped."""

    group: str
    goal: Goal
    facts: tuple[Fact, ...]
    expected: Fact
    also_right: frozenset[Fact] = frozenset()

    def body(self, proofs: int) -> dict[str, Any]:
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

    def about(self, answer: dict[str, Any]) -> "ContestQuestion":
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
    questions: tuple[ContestQuestion, ...] = ()
    num_available: int = 0
    num_left_out: int = 0
    note: str | None = None


def subject(session: Session, models: Sequence[ModelVersion], num_questions: int) -> KbRows | str:
    """Returns the KB about which the models are asked, or says why there is none."""
    if num_questions == 0:
        return "no questions were asked for"
    if len({model.kb_sha256 for model in models}) > 1:
        return "the models were trained on different KBs: train them on the same one"
    kb = repository.kb_of(session, models[0])
    if kb is None:
        return "their KB is not on this service: upload it to compare answers"
    if not any(kb.splits.get(name) for name in SPLITS):
        return NO_SPLIT
    if kb.num_facts > MAX_FACTS:
        return f"their KB has more than {MAX_FACTS} facts: use `ctp bench links`"
    return KbRows.of(session, kb)


def prepare(files: KbFiles, rows: KbRows | str, num_questions: int) -> Prepared:
    """Chooses questions that are evenly spread over the split, so that every length or predicate has its share."""
    if isinstance(rows, str):
        return Prepared(note=rows)
    split = next(name for name in SPLITS if rows.kb.splits.get(name))
    loaded = rows.read(files)
    questions = _graph_questions(loaded, split) if isinstance(loaded, GraphsKB) else _fact_questions(loaded, split)
    return choose(split, questions, num_questions)


def choose(split: str, questions: Sequence[ContestQuestion], num_questions: int) -> Prepared:
    """Chooses among the questions, without those whose expected answer may be crowded out by other true answers."""
    fair = [question for question in questions if len(question.also_right) < MAX_CANDIDATES]
    if not fair:
        return Prepared(note=f"their {split} split has no question that can be asked fairly")
    step = max(1.0, len(fair) / num_questions)
    chosen = [fair[int(i * step)] for i in range(min(num_questions, len(fair)))]
    return Prepared(split, tuple(chosen), len(fair), len(questions) - len(fair))


def _graph_questions(kb: GraphsKB, split: str) -> list[ContestQuestion]:
    graphs = [graph for graph in kb.splits[split] if graph.label is not None]
    return [
        ContestQuestion(
            f"{len(graph.facts)} facts",
            (graph.subject, None, graph.object),
            graph.facts,
            Fact(graph.subject, graph.label or "", graph.object),
        )
        for graph in sorted(graphs, key=lambda graph: len(graph.facts))
    ]


def _fact_questions(kb: FactsKB, split: str) -> list[ContestQuestion]:
    """Makes two questions of each fact, one for either end, as the metrics do; sorted by predicate, then by end."""
    asked = [(fact, _goals(fact)[end]) for end in (0, 1) for fact in kb.facts(split)]
    known: dict[Goal, set[Fact]] = {goal: set() for _, goal in asked}
    for fact in _answers_to(kb, split):
        for goal in _goals(fact):
            if goal in known:
                known[goal].add(fact)
    asked.sort(key=lambda one: one[0].predicate)
    return [ContestQuestion(fact.predicate, goal, (), fact, frozenset(known[goal] - {fact})) for fact, goal in asked]


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

    async def firsts(self, model: Target, questions: Sequence[ContestQuestion], proofs: int) -> list[Given]:
        found: list[Given] = []
        for start in range(0, len(questions), MAX_BATCH):
            some = questions[start : start + MAX_BATCH]
            outcomes = await self._outcomes(model, some, proofs)
            for place, outcome in enumerate(outcomes):
                if outcome.late:  # others in the batch may have used up the time: slow is not wrong
                    outcomes[place : place + 1] = await self._outcomes(model, [some[place]], proofs)
            found += [outcome.first for outcome in outcomes]
        return found

    async def _outcomes(self, model: Target, questions: Sequence[ContestQuestion], proofs: int) -> list[Outcome]:
        replies = await self.batcher.ask(model, [question.body(proofs) for question in questions], self.request_id)
        return await self.comparing.run(model.tenant, partial(_outcomes, model, questions, replies))

    async def explained(
        self, model: Target, questions: Sequence[ContestQuestion], answers: Sequence[Given]
    ) -> list[Given]:
        """Returns the same answers, each with its best proof if there is one."""
        asked = [
            question.about(answer) for question, answer in zip(questions, answers, strict=True) if answer is not None
        ]
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
    asking_all = _ask_all(prepared.questions, models, asking, answered)
    note = await _stopped(asking_all, ANSWER_SHARE * seconds, seconds)
    places = sorted(answered)
    if not places:
        return None, note
    asked = [prepared.questions[place] for place in places]
    answers = [[answered[place][number] for place in places] for number in range(len(models))]
    differing = _differing(asked, answers)
    questions = [asked[place] for place in differing[:num_shown]]
    shown = [[given[place] for place in differing[:num_shown]] for given in answers]
    unexplained = await _stopped(_explain(questions, shown, models, asking), (1 - ANSWER_SHARE) * seconds, seconds)
    disagreements = [
        _disagreement(question, [given[place] for given in shown]) for place, question in enumerate(questions)
    ]
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
    questions: Sequence[ContestQuestion], models: Sequence[Target], asking: Asking, answered: dict[int, list[Given]]
) -> None:
    """Notes the answers of all models in `answered`, by the place of the question, batch by batch.

    The questions are asked in an order of which every beginning is spread evenly over all groups.
    """
    order = sorted(range(len(questions)), key=lambda place: place * GOLDEN % 1.0)
    for start in range(0, len(order), MAX_BATCH):
        places = order[start : start + MAX_BATCH]
        some = [questions[place] for place in places]
        given = [await asking.firsts(model, some, proofs=0) for model in models]
        answered |= {place: [one[number] for one in given] for number, place in enumerate(places)}


async def _explain(
    questions: Sequence[ContestQuestion], answers: list[list[Given]], models: Sequence[Target], asking: Asking
) -> None:
    """Adds proofs to the answers, model by model."""
    for number, model in enumerate(models):
        answers[number] = await asking.explained(model, questions, answers[number])


def _outcomes(model: Target, questions: Sequence[ContestQuestion], replies: Sequence[Reply]) -> list[Outcome]:
    try:
        return [question.outcome(reply) for question, reply in zip(questions, replies, strict=True)]
    except NotAnswered as error:
        raise NotAnswered(f"{model.model_id} did not answer: {error}") from None


def _right(question: ContestQuestion, answer: Given) -> bool:
    return answer is not None and _fact(answer) == question.expected


def _differing(questions: Sequence[ContestQuestion], answers: Sequence[Sequence[Given]]) -> list[int]:
    """Returns the questions with different answers; those that some model answers correctly come first."""

    def shown(answer: Given) -> Fact | None:
        return None if answer is None else _fact(answer)

    places = [i for i in range(len(questions)) if len({shown(given[i]) for given in answers}) > 1]
    return sorted(places, key=lambda i: not any(_right(questions[i], given[i]) for given in answers))


def _groups(questions: Sequence[ContestQuestion], answers: Sequence[Sequence[Given]]) -> list[GroupScores]:
    """Scores all questions, then those of each length or predicate."""
    right = [[_right(question, answer) for question, answer in zip(questions, given, strict=True)] for given in answers]
    members: dict[str, list[int]] = {EVERYTHING: list(range(len(questions)))}
    for place, question in enumerate(questions):
        members.setdefault(question.group, []).append(place)
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


def _disagreement(question: ContestQuestion, answers: Sequence[Given]) -> Disagreement:
    return Disagreement(
        group=question.group,
        goal=dict(zip(("subject", "predicate", "object"), question.goal, strict=True)),
        facts=[list(fact) for fact in question.facts],
        expected=str(question.expected),
        answers=[_given(question, answer) for answer in answers],
    )


def _given(question: ContestQuestion, answer: Given) -> GivenAnswer:
    if answer is None:
        return GivenAnswer(answer=None, score=None, right=False, proof=None)
    proof = answer["proofs"][0]["text"] if answer["proofs"] else None
    return GivenAnswer(answer=str(_fact(answer)), score=answer["score"], right=_right(question, answer), proof=proof)
