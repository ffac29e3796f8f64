"""Answers batches of questions with models that are kept in memory."""

import json
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import cache
from typing import Any

import structlog

from ctp_core.artifact import decode
from ctp_core.errors import CtpError
from ctp_core.models.base import Answer, Answers, Budget, Model, Question
from ctp_core.models.registry import load_model
from ctp_core.proofs import Proof, ProofNode
from ctp_core.symbols import Fact, Goal
from service.errors import core_problem, problem
from service.queue import make_redis
from service.settings import Settings
from service.storage import make_storage
from worker.device import choose_device, limit_threads

log = structlog.get_logger()
REPLY_TTL_SECONDS = 60


@dataclass(frozen=True)
class Loaded:
    """A model in memory. Models are not made for threads: one question batch at a time."""

    model: Model
    num_bytes: int
    lock: threading.Lock


class ModelCache:
    """Least recently used models give way when their files add up to more than `max_bytes`."""

    def __init__(self, settings: Settings) -> None:
        self.storage, self.max_bytes = make_storage(settings), settings.model_cache_bytes
        self.device = choose_device(settings.device)
        self._loaded: OrderedDict[str, Loaded] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, artifact: str) -> Loaded:
        """Raises ArtifactError where the files are gone or damaged."""
        with self._lock:
            if artifact not in self._loaded:
                self._loaded[artifact] = self._load(artifact)
            self._loaded.move_to_end(artifact)
            while len(self._loaded) > 1 and sum(m.num_bytes for m in self._loaded.values()) > self.max_bytes:
                self._loaded.popitem(last=False)
            return self._loaded[artifact]

    def _load(self, artifact: str) -> Loaded:
        files = self.storage.get(artifact)
        return Loaded(load_model(decode(files), self.device), sum(map(len, files.values())), threading.Lock())


class QueryEngine:
    """One for each process."""

    def __init__(self, settings: Settings) -> None:
        limit_threads(settings.threads)
        self.models = ModelCache(settings)
        self.redis = make_redis(settings)

    def answer(self, message: dict[str, Any]) -> None:
        """Answers a batch and sends the replies to the list that its sender listens to."""
        replies = self.replies(message)
        body = json.dumps({"batch_id": message["batch_id"], "replies": replies}, ensure_ascii=False)
        with self.redis.pipeline() as pipeline:
            pipeline.rpush(message["reply_to"], body)
            pipeline.expire(message["reply_to"], REPLY_TTL_SECONDS)
            pipeline.execute()

    def replies(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        """One for each question: `{"answers": …}` or `{"problem": …}`."""
        questions = [_question(values) for values in message["questions"]]
        try:
            loaded = self.models.get(message["artifact"])
            with loaded.lock:
                answers = loaded.model.answer(questions, Budget(message["seconds"]))
        except CtpError as error:
            return [{"problem": core_problem(error)}] * len(questions)
        except Exception:
            log.exception("query_failed", model_id=message["model_id"])
            fault = problem(500, "Internal error", "query_failed", "the model failed to answer", {})
            return [{"problem": fault}] * len(questions)
        return [_reply(loaded.model, answer) for answer in answers]


@cache
def engine(settings: Settings) -> QueryEngine:
    return QueryEngine(settings)


def _question(values: dict[str, Any]) -> Question:
    facts = tuple(Fact(*fact) for fact in values["facts"])
    options = {key: values[key] for key in ("top_k", "proofs", "depth", "exclude_known")}
    return Question(Goal(*values["goal"]), facts, **options)


def _reply(model: Model, answers: Answers | CtpError) -> dict[str, Any]:
    if isinstance(answers, CtpError):
        return {"problem": core_problem(answers)}
    return {
        "answers": {
            "explainable": model.explainable,
            "semiring": model.semiring,
            "truncated": answers.truncated,
            "answers": [_answer(answer, rank) for rank, answer in enumerate(answers.items, 1)],
        }
    }


def _answer(answer: Answer, rank: int) -> dict[str, Any]:
    return {
        **answer.fact._asdict(),
        "score": answer.score,
        "rank": rank,
        "known": answer.known,
        "score_parts": answer.score_parts,
        "proofs": [_proof(proof) for proof in answer.proofs],
    }


def _proof(proof: Proof) -> dict[str, Any]:
    return {"score": proof.score, "share": proof.share, "text": proof.text, "tree": _node(proof.tree)}


def _node(node: ProofNode) -> dict[str, Any]:
    rule = node.rule
    return {
        "goal": node.goal._asdict(),
        "score": node.score,
        "by": node.by,
        "rule": None if rule is None else {"id": rule.id, "text": rule.text, "confidence": rule.confidence},
        "fact": None if node.fact is None else node.fact._asdict(),
        "unifications": [vars(unification) for unification in node.unifications],
        "children": [_node(child) for child in node.children],
    }
