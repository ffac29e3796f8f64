"""Answers batches of questions with models from the cache."""

import threading
import time
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

import structlog
from sqlalchemy.exc import DBAPIError

from ctp_core.base.model import Answers, Budget, Model, Question
from ctp_core.errors import CtpError
from ctp_core.symbols import Fact, Goal
from service.errors import core_problem, problem, storage_problem
from service.files.storage import StorageError
from service.health.counters import ANSWERED, WORKER_COUNTS
from service.queries.wire import Problem, Reply, pack
from service.queue import make_redis
from service.settings import Settings
from worker.answer_json import answers_json
from worker.device import limit_threads
from worker.model_cache import ModelCache

log = structlog.get_logger()
REPLY_TTL_SECONDS = 60
ANSWER_SHARE = 0.8  # share of the time that the sender waits; the rest is for transport


class PendingCounts:
    """Counts that are not in Redis yet; safe to use from several threads."""

    def __init__(self) -> None:
        self._counted: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, name: str, number: int = 1) -> None:
        with self._lock:
            self._counted[name] += number

    def take(self) -> Counter[str]:
        with self._lock:
            counted, self._counted = self._counted, Counter()
        return counted


@dataclass(frozen=True)
class TimeLeft:
    """The time of a batch: at most `seconds` for each search, and none after `ends`, when nobody waits any more."""

    seconds: float
    ends: float

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.ends

    def budget(self) -> Budget:
        return Budget(min(self.seconds, max(0.0, self.ends - time.monotonic())))


class QueryEngine:
    """Answers the batches of one process."""

    def __init__(self, settings: Settings) -> None:
        limit_threads(settings.threads)
        self.counts = PendingCounts()
        self.models = ModelCache(settings, self.counts.add)
        self.redis = make_redis(settings)

    def answer(self, message: dict[str, Any]) -> None:
        """Answers a batch and sends the replies to the list that its sender listens to."""
        with structlog.contextvars.bound_contextvars(
            request_ids=message["request_ids"], model_id=message["model_id"], questions=len(message["questions"])
        ):
            replies = self.replies(message)
            body = pack(message["batch_id"], replies)
            self.counts.add(ANSWERED, len(replies))
            with self.redis.pipeline(transaction=False) as pipeline:
                pipeline.rpush(message["reply_to"], body)
                pipeline.expire(message["reply_to"], REPLY_TTL_SECONDS)
                for name, number in self.counts.take().items():
                    pipeline.hincrby(WORKER_COUNTS, name, number)
                pipeline.execute()
            log.info("batch_answered", problems=sum(isinstance(reply, dict) for reply in replies))

    def replies(self, message: dict[str, Any]) -> list[Reply]:
        """Returns one reply per question; an error of the model is the reply to all, any other only to its question."""
        facts = [tuple(Fact(*fact) for fact in shared) for shared in message["facts"]]
        asked = [{**values, "facts": facts[values["facts"]]} for values in message["questions"]]
        time_left = TimeLeft(message["seconds"], time.monotonic() + ANSWER_SHARE * message["reply_seconds"])
        try:
            loaded = self.models.get(message["artifact"], message["kb_id"])
        except Exception as error:
            return [_problem(error)] * len(asked)
        try:
            with loaded.lock:
                replies = _replies(loaded.model, asked, time_left)
                loaded.measure()
            return replies
        finally:
            self.models.make_room()


def _replies(model: Model, asked: list[dict[str, Any]], time_left: TimeLeft) -> list[Reply]:
    """Answers all questions at once; if that fails, one by one, so that only the faulty ones fail."""
    try:
        answers = _answers(model, [_question(values) for values in asked], time_left)
        return [_reply(model, answer) for answer in answers]
    except Exception as error:
        if len(asked) == 1:
            return [_problem(error)]
        log.warning("batch_failed", error=f"{type(error).__name__}: {error}")
        return [_reply_alone(model, values, time_left) for values in asked]


def _reply_alone(model: Model, values: dict[str, Any], time_left: TimeLeft) -> Reply:
    if time_left.is_over:
        return problem(
            503, "Unavailable", "out_of_time", "other questions in the same batch took too long: try again", {}
        )
    return _replies(model, [values], time_left)[0]


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
    log.error("query_failed", exc_info=error)
    if isinstance(error, DBAPIError):
        return problem(503, "Unavailable", "part_is_away", "the database cannot be reached: try again", {})
    if isinstance(error, MemoryError):
        return problem(
            503,
            "Unavailable",
            "out_of_memory",
            "the query worker has too little memory for this query: ask for less, or give it more memory",
            {},
        )
    return problem(
        500, "Internal error", "query_failed", "the model failed to answer: the query worker's log says why", {}
    )


@cache
def engine(settings: Settings) -> QueryEngine:
    return QueryEngine(settings)


def _question(values: dict[str, Any]) -> Question:
    options = {key: values[key] for key in ("top_k", "proofs", "depth", "exclude_known")}
    return Question(Goal(*values["goal"]), values["facts"], **options)


def _reply(model: Model, answers: Answers | CtpError) -> Reply:
    return core_problem(answers) if isinstance(answers, CtpError) else answers_json(model, answers)
