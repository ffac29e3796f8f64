"""Answers batches of questions with models from the cache, in a child of a query worker."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy.exc import DBAPIError

from ctp_core.base.model import Answers, Budget, Model, Question
from ctp_core.errors import CtpError
from ctp_core.logic import answers as logic
from ctp_core.logic.explained import ToExplain, explain_fact
from ctp_core.logic.question import LogicalQuestion, selected, variable_named
from ctp_core.logic.search import DEFAULT_WIDTH
from ctp_core.logic.syntax import parse
from ctp_core.symbols import Fact, Goal
from service.errors import core_problem, problem, storage_problem
from service.files.storage import StorageError
from service.health.counters import ANSWERED
from service.queries.wire import Problem, Reply
from service.settings import Settings
from worker import memory
from worker.answer_json import answers_json
from worker.device import limit_threads
from worker.logical_json import explained_json, logical_json
from worker.model_cache import ModelCache
from worker.names import LOAD_SECONDS, OUT_OF_MEMORY, Answered

log = structlog.get_logger()
BATCH_ANSWERS = 4  # largest answers of one request that the answers of a batch may be worth together


@dataclass(frozen=True)
class TimeLeft:
    """The time of a batch: at most `seconds` for each search, and none after `ends`, when nobody waits any more."""

    seconds: float
    ends: float
    on_search: Callable[[float], None]

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.ends

    def budget(self) -> Budget:
        """Returns the time of a search that begins now, and says so."""
        seconds = min(self.seconds, max(0.0, self.ends - time.monotonic()))
        self.on_search(seconds)
        return Budget(seconds)


class Room:
    """The bytes that answers may still take: those of each request, and those of the batch, which many may share."""

    def __init__(self, max_bytes: int) -> None:
        self._of_batch = BATCH_ANSWERS * max_bytes
        self._of_request: defaultdict[str, int] = defaultdict(lambda: max_bytes)

    def left(self, request_id: str) -> int:
        return min(self._of_batch, self._of_request[request_id])

    def take(self, request_id: str, num_bytes: int) -> None:
        self._of_batch -= num_bytes
        self._of_request[request_id] -= num_bytes


class QueryEngine:
    """Answers one batch after another. Before each part of the work, `say` hears how long it may take at most.

    It does not hear of the first search if the model is in memory: whoever sends a batch expects one at once.
    """

    def __init__(self, settings: Settings, say: Callable[[float | Answered], None] = lambda _: None) -> None:
        limit_threads(settings.threads)
        self.settings, self.say = settings, say
        self.counts: Counter[str] = Counter()
        self.models = ModelCache(settings, self._count)
        self._expected = False

    def _search(self, seconds: float) -> None:
        if not self._expected:
            self.say(seconds + self.settings.query_grace_seconds)
        self._expected = False

    def _count(self, name: str) -> None:
        self.counts[name] += 1

    def answer(self, message: dict[str, Any]) -> None:
        """Answers a batch; says also what was counted, and which models are in memory now."""
        with structlog.contextvars.bound_contextvars(
            request_ids=list(dict.fromkeys(message["request_ids"])),
            model_id=message["model_id"],
            questions=len(message["questions"]),
        ):
            replies = self.replies(message)
            self.counts[ANSWERED] += len(replies)
            counts, self.counts = self.counts, Counter()
            self.say(Answered(replies, counts, frozenset(self.models.keys)))
            log.info("batch_answered", problems=sum(isinstance(reply, dict) for reply in replies))

    def replies(self, message: dict[str, Any]) -> list[Reply]:
        """Returns one reply per question; an error of the model is the reply to all, any other only to its question."""
        try:
            return self._replies(message)
        except Exception as error:  # a fault of our own costs this batch, not the child with all its models
            return [_problem(error)] * len(message["questions"])

    def _replies(self, message: dict[str, Any]) -> list[Reply]:
        facts = [tuple(Fact(*fact) for fact in shared) for shared in message["facts"]]
        asked = [
            {**values, "facts": facts[values["facts"]], "request_id": request_id}
            for values, request_id in zip(message["questions"], message["request_ids"], strict=True)
        ]
        time_left = TimeLeft(message["seconds"], time.monotonic() + message["seconds_left"], self._search)
        self._expected = (message["artifact"], message["kb_id"]) in self.models.keys
        if not self._expected:
            self.say(LOAD_SECONDS)
        loaded = self.models.get(message["artifact"], message["kb_id"])
        try:
            room = Room(self.settings.max_answer_bytes)
            return _replies(loaded.model, asked, time_left, room, self.settings.where_width)
        finally:
            loaded.measure()
            self.models.make_room()


def _replies(
    model: Model, asked: list[dict[str, Any]], time_left: TimeLeft, room: Room, width: int = DEFAULT_WIDTH
) -> list[Reply]:
    """Answers all questions at once; if that fails, one by one, so that only the faulty ones fail.

    A logical question and an explanation come alone.
    """
    if "where" in asked[0] or "explained" in asked[0]:
        return [_logical_reply(model, values, time_left, room, width) for values in asked]
    try:
        answers = _answers(model, [_question(values) for values in asked], time_left)
    except Exception as error:
        if len(asked) == 1:
            return [_problem(error)]
        log.warning("batch_failed", error=f"{type(error).__name__}: {error}")
        return [_reply_alone(model, values, time_left, room) for values in asked]
    return [_reply(model, answer, values["request_id"], room) for values, answer in zip(asked, answers, strict=True)]


def _reply_alone(model: Model, values: dict[str, Any], time_left: TimeLeft, room: Room) -> Reply:
    if time_left.is_over:
        return problem(
            503, "Unavailable", "out_of_time", "other questions in the same batch took too long: try again", {}
        )
    return _replies(model, [values], time_left, room)[0]


def _answers(model: Model, questions: list[Question], time_left: TimeLeft) -> list[Answers | CtpError]:
    """Answers all questions in a shared time; asks again, alone, those that got nothing because others took it."""
    answers = model.answer(questions, time_left.budget())
    if len(questions) > 1:
        for number, answer in enumerate(answers):
            if isinstance(answer, Answers) and answer.truncated and not answer.items and not time_left.is_over:
                answers[number] = model.answer([questions[number]], time_left.budget())[0]
    return answers


def _problem(error: Exception) -> Problem:
    if isinstance(error, CtpError):
        log.warning("query_refused", error=str(error))
        return core_problem(error)
    if isinstance(error, StorageError):
        log.warning("storage_failed", error=str(error))
        return storage_problem(error)
    if isinstance(error, RecursionError):  # not logged with its stack, which is as deep as the proof
        log.warning("proof_too_deep", error=str(error))
        detail = "a proof has too many steps within steps to be written: ask with less `depth`, or with `proofs` 0"
        return problem(422, "Invalid question", "proof_too_deep", detail, {})
    log.error("query_failed", exc_info=error)
    if isinstance(error, DBAPIError):
        return problem(503, "Unavailable", "part_is_away", "the database cannot be reached: try again", {})
    if memory.is_out_of_memory(error):
        return OUT_OF_MEMORY
    return problem(
        500, "Internal error", "query_failed", "the model failed to answer: the query worker's log says why", {}
    )


def _question(values: dict[str, Any]) -> Question:
    options = {key: values[key] for key in ("top_k", "proofs", "depth", "exclude_known")}
    return Question(Goal(*values["goal"]), values["facts"], without=_facts(values.get("without", [])), **options)


def _facts(rows: list[list[str]]) -> tuple[Fact, ...]:
    return tuple(Fact(*row) for row in rows)


def _logical_question(values: dict[str, Any]) -> LogicalQuestion:
    where = tuple(formula for text in values["where"] for formula in parse(text))
    types = {variable_named(name, "types"): type_ for name, type_ in values["types"].items()}
    options = {key: values[key] for key in ("distinct", "tnorm", "type_predicate", "top_k", "proofs", "explain")}
    options |= {"types": types, "facts": values["facts"], "without": _facts(values["without"])}
    return LogicalQuestion(where, selected(where, values["select"]), **options)


def _to_explain(values: dict[str, Any]) -> ToExplain:
    options = {key: values[key] for key in ("threshold", "proofs", "near_misses", "facts")}
    return ToExplain(Fact(*values["explained"]), without=_facts(values["without"]), **options)


def _logical_reply(model: Model, values: dict[str, Any], time_left: TimeLeft, room: Room, width: int) -> Reply:
    request_id = values["request_id"]
    try:
        left = room.left(request_id)
        if "explained" in values:
            reply = explained_json(model, explain_fact(model, _to_explain(values), time_left.budget()), left)
        else:
            found = logic.answer(model, _logical_question(values), time_left.budget(), width)
            reply = logical_json(model, found, left)
    except Exception as error:
        return _problem(error)
    room.take(request_id, len(reply))
    return reply


def _reply(model: Model, answers: Answers | CtpError, request_id: str, room: Room) -> Reply:
    if isinstance(answers, CtpError):
        return core_problem(answers)
    try:
        reply = answers_json(model, answers, room.left(request_id))
    except Exception as error:
        return _problem(error)
    room.take(request_id, len(reply))
    return reply
