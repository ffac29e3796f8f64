"""Answers batches of questions with models that are kept in memory."""

from collections import Counter
from functools import cache
from typing import Any

import structlog
from redis.exceptions import RedisError

from ctp_core.errors import CtpError
from ctp_core.models.base import Answers, Budget, Model, Question
from ctp_core.symbols import Fact, Goal
from service.errors import core_problem, problem
from service.metrics import ANSWERED, WORKER_COUNTS
from service.queries.wire import Reply, pack
from service.queue import make_redis
from service.settings import Settings
from worker.answer_json import answers_json
from worker.device import limit_threads
from worker.model_cache import ModelCache

log = structlog.get_logger()
REPLY_TTL_SECONDS = 60


class QueryEngine:
    """One for each process."""

    def __init__(self, settings: Settings) -> None:
        limit_threads(settings.threads)
        self.counts: Counter[str] = Counter()
        self.models = ModelCache(settings, lambda name: self.counts.update([name]))
        self.redis = make_redis(settings)

    def answer(self, message: dict[str, Any]) -> None:
        """Answers a batch and sends the replies to the list that its sender listens to."""
        with structlog.contextvars.bound_contextvars(
            request_ids=message["request_ids"], model_id=message["model_id"], questions=len(message["questions"])
        ):
            replies = self.replies(message)
            body = pack(message["batch_id"], replies)
            self.counts[ANSWERED] += len(replies)
            counts, self.counts = self.counts, Counter()
            with self.redis.pipeline(transaction=False) as pipeline:
                pipeline.rpush(message["reply_to"], body)
                pipeline.expire(message["reply_to"], REPLY_TTL_SECONDS)
                for name, number in counts.items():
                    pipeline.hincrby(WORKER_COUNTS, name, number)
                pipeline.execute()
            log.info("batch_answered", problems=sum(isinstance(reply, dict) for reply in replies))

    def replies(self, message: dict[str, Any]) -> list[Reply]:
        """One for each question."""
        questions = [_question(values) for values in message["questions"]]
        try:
            loaded = self.models.get(message["artifact"], message["kb_id"])
            with loaded.lock:
                answers = _answers(loaded.model, questions, message["seconds"])
                loaded.measure()
            self.models.make_room()
            return [_reply(loaded.model, answer) for answer in answers]
        except CtpError as error:
            log.warning("query_refused", error=str(error))
            return [core_problem(error)] * len(questions)
        except (RedisError, MemoryError):
            raise
        except Exception:
            log.exception("query_failed")
            return [problem(500, "Internal error", "query_failed", "the model failed to answer", {})] * len(questions)


def _answers(model: Model, questions: list[Question], seconds: float) -> list[Answers | CtpError]:
    """The time is for all; who got nothing because others took it is asked again, alone."""
    answers = model.answer(questions, Budget(seconds))
    if len(questions) > 1:
        for number, answer in enumerate(answers):
            if isinstance(answer, Answers) and answer.truncated and not answer.items:
                answers[number] = model.answer([questions[number]], Budget(seconds))[0]
    return answers


@cache
def engine(settings: Settings) -> QueryEngine:
    return QueryEngine(settings)


def _question(values: dict[str, Any]) -> Question:
    facts = tuple(Fact(*fact) for fact in values["facts"])
    options = {key: values[key] for key in ("top_k", "proofs", "depth", "exclude_known")}
    return Question(Goal(*values["goal"]), facts, **options)


def _reply(model: Model, answers: Answers | CtpError) -> Reply:
    return core_problem(answers) if isinstance(answers, CtpError) else answers_json(model, answers)
