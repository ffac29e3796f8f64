"""A query worker's engine on real model files: who fails, who waits, what is counted."""

import gc
import json
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from sqlalchemy.exc import OperationalError

from ctp_core.artifact import encode
from ctp_core.base.config import BaseConfig
from ctp_core.base.model import Answer, Answers, Budget, Model, Question
from ctp_core.errors import CtpError
from ctp_core.manifest import TENSORS
from ctp_core.methods import parse_config
from ctp_core.proofs import Proof, ProofNode
from ctp_core.registry import create_trainer
from ctp_core.symbols import Fact
from service.files.storage import Files
from service.health.counters import CACHE_EVICTIONS
from service.samples import read_sample
from service.settings import Settings
from tests.stores import folder_store
from worker import model_cache
from worker.answer_json import CUT
from worker.names import LOAD_SECONDS
from worker.query_engine import QueryEngine

pytestmark = pytest.mark.slow
CONFIG = {"method": "proofs", "templates": {"1": 4, "2": 4}, "epochs": 2}
GOAL = [None, "grandparent", "morty"]
FACT = Fact("rick", "grandparent", "morty")
QUESTION = {"goal": GOAL, "facts": 0, "top_k": 3, "proofs": 1, "depth": None, "exclude_known": False}


@pytest.fixture(scope="module")
def files() -> Files:
    trainer = create_trainer(parse_config("facts", CONFIG), read_sample("family").kb, torch.device("cpu"))
    return encode(trainer.fit().to_artifact())


def engine(folder: Path, **more: Any) -> QueryEngine:
    return QueryEngine(Settings(data_dir=folder, redis_url="redis://127.0.0.1:1", device="cpu", threads=1, **more))


def message(artifact: str, *questions: dict[str, Any]) -> dict[str, Any]:
    times = {"seconds": 5.0, "seconds_left": 16.0}
    asked = {"questions": list(questions), "request_ids": [f"r{number}" for number in range(len(questions))]}
    return {"artifact": artifact, "kb_id": None, **times, **asked, "facts": [[]]}


def test_all_children_of_a_worker_together_keep_as_much_as_is_set(tmp_path: Path) -> None:
    assert engine(tmp_path, model_cache_bytes=9000, query_processes=3).models.max_bytes == 3000


def test_before_each_part_of_its_work_it_is_told_how_long_it_may_take(tmp_path: Path, files: Files) -> None:
    key = folder_store(tmp_path / "artifacts").put("models/m", files)
    asked = engine(tmp_path, query_grace_seconds=3)
    asked.say = (said := []).append
    asked.replies(message(key, QUESTION))
    assert said == [LOAD_SECONDS, 8.0]
    asked.replies(message(key, QUESTION))
    assert said == [LOAD_SECONDS, 8.0], "a search of a model in memory is expected"
    asked.models.get(key, None).model = Dawdler()
    asked.replies(message(key, QUESTION, QUESTION) | {"seconds": 0.1})
    assert said[2:] == [pytest.approx(3.1), pytest.approx(3.1)], "those that found nothing are asked again"


def test_a_question_that_breaks_the_model_fails_alone(tmp_path: Path, files: Files) -> None:
    key = folder_store(tmp_path / "artifacts").put("models/m", files)
    broken = QUESTION | {"top_k": "ten"}  # no such question leaves the API: it stands for a fault of our own
    first, second, third = engine(tmp_path).replies(message(key, QUESTION, broken, QUESTION))
    assert isinstance(first, bytes)
    assert first == third
    assert isinstance(second, dict)
    assert (second["status"], second["code"]) == (500, "query_failed")


def test_a_batch_ends_while_its_sender_still_waits(tmp_path: Path, files: Files) -> None:
    """A search that finds nothing in its time is tried again alone, and so are all when one breaks: not for ever."""
    key = folder_store(tmp_path / "artifacts").put("models/m", files)
    asked = engine(tmp_path)
    asked.models.get(key, None).model = dawdler = Dawdler()
    for questions in ([QUESTION] * 20, [QUESTION | {"top_k": "ten"}, *[QUESTION] * 19]):
        dawdler.seconds.clear()
        replies = asked.replies(message(key, *questions) | {"seconds": 0.5, "seconds_left": 1.6})
        assert sum(dawdler.seconds) <= 2.0, "twenty searches of half a second"
        assert len(replies) == 20
    codes = [reply["code"] for reply in replies if isinstance(reply, dict)]
    assert codes[0] == "query_failed"
    assert set(codes[1:]) == {"out_of_time"}


class Dawdler(Model):
    """Takes all the time there is, and finds nothing; `seconds` is what it was given."""

    method, kind, scoring = "dawdler", "facts", "no_proofs"
    config = BaseConfig(method="dawdler")

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def answer(self, questions: Sequence[Question], budget: Budget) -> list[Answers | CtpError]:
        if any(isinstance(question.top_k, str) for question in questions):
            raise TypeError("a fault of our own")
        self.seconds.append(budget.seconds)
        time.sleep(budget.seconds)
        return [Answers((), truncated=True) for _ in questions]

    def rules(self) -> Any:
        raise NotImplementedError

    def to_artifact(self) -> Any:
        raise NotImplementedError

    @classmethod
    def from_artifact(cls, artifact: Any, device: torch.device) -> Model:
        raise NotImplementedError


def answers_of(reply: Any) -> list[Any]:
    assert isinstance(reply, bytes)
    found: dict[str, Any] = json.loads(b"{%b}" % reply)
    assert found["truncated"] is (CUT in found["warnings"])
    return list(found["answers"])


def test_the_answers_to_one_request_share_its_bytes(tmp_path: Path, files: Files) -> None:
    key = folder_store(tmp_path / "artifacts").put("models/m", files)
    batch = message(key, *[QUESTION] * 3)
    size = len(engine(tmp_path).replies(batch)[0])
    asked = engine(tmp_path, max_answer_bytes=size + size // 2)
    first, second, third = map(answers_of, asked.replies(batch | {"request_ids": ["one", "one", "two"]}))
    assert len(first) == len(third) == 3
    assert 0 < len(second) < 3, "what the first question of the request has left"


def test_the_answers_of_a_batch_are_bounded_however_many_requests_it_has(tmp_path: Path, files: Files) -> None:
    key = folder_store(tmp_path / "artifacts").put("models/m", files)
    size = len(engine(tmp_path).replies(message(key, QUESTION))[0])
    found = engine(tmp_path, max_answer_bytes=size).replies(message(key, *[QUESTION] * 6))
    assert [len(answers_of(reply)) for reply in found] == [3, 3, 3, 3, 0, 0]


def test_a_proof_too_deep_to_be_written_fails_its_question_alone(tmp_path: Path, files: Files) -> None:
    key = folder_store(tmp_path / "artifacts").put("models/m", files)
    asked = engine(tmp_path)
    asked.models.get(key, None).model = Digger()
    shallow, deep = asked.replies(message(key, QUESTION, QUESTION | {"depth": 100_000}))
    assert len(answers_of(shallow)) == 1
    assert isinstance(deep, dict)
    assert (deep["status"], deep["code"]) == (422, "proof_too_deep")


class Digger(Dawdler):
    """Answers with a proof that is as deep as it may be."""

    def answer(self, questions: Sequence[Question], budget: Budget) -> list[Answers | CtpError]:
        return [Answers((Answer(FACT, 1.0, known=True, proofs=(Proof(_dug(one.depth or 0)),)),)) for one in questions]


def _dug(depth: int) -> ProofNode:
    node = ProofNode(FACT, 1.0, "fact", fact=FACT)
    for _ in range(depth):
        node = ProofNode(FACT, 1.0, "fact", children=(node,))
    return node


def test_room_is_made_also_when_a_question_failed(tmp_path: Path, files: Files) -> None:
    storage = folder_store(tmp_path / "artifacts")
    keys = [storage.put(f"models/{name}", files) for name in "ab"]
    asked = engine(tmp_path, model_cache_bytes=1)
    for key in keys:
        (reply,) = asked.replies(message(key, QUESTION | {"top_k": "ten"}))
        assert isinstance(reply, dict)
    assert asked.counts[CACHE_EVICTIONS] == 1


def test_room_is_made_before_a_model_is_loaded(tmp_path: Path, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = folder_store(tmp_path / "artifacts")
    keys = [storage.put(f"models/{name}", files) for name in "abc"]
    asked = engine(tmp_path, query_processes=1)
    beside: list[int] = []
    load = model_cache.load_model
    monkeypatch.setattr(model_cache, "load_model", lambda *a: (beside.append(len(asked.models.keys)), load(*a))[1])
    sizes = [asked.models.get(key, None).num_bytes for key in keys[:2]]
    asked.models.max_bytes = sum(sizes) + 1
    asked.models.get(keys[2], None)
    assert beside[2] < 2, "the models of others would have been in the way"


def test_where_memory_does_not_suffice_the_models_of_others_give_way(
    tmp_path: Path, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = folder_store(tmp_path / "artifacts")
    keys = [storage.put(f"models/{name}", files) for name in "abc"]
    asked = engine(tmp_path)
    load = model_cache.load_model

    def cramped(*given: Any) -> Model:
        if asked.models.keys:
            raise MemoryError
        return load(*given)

    monkeypatch.setattr(model_cache, "load_model", cramped)
    for key in keys:
        (reply,) = asked.replies(message(key, QUESTION))
        assert isinstance(reply, bytes)
    assert asked.counts[CACHE_EVICTIONS] == 2


def test_a_model_that_gives_way_is_gone_even_where_it_refers_to_itself(tmp_path: Path, files: Files) -> None:
    storage = folder_store(tmp_path / "artifacts")
    keys = [storage.put(f"models/{name}", files) for name in "ab"]
    asked = engine(tmp_path, model_cache_bytes=1)
    gc.disable()  # a worker's thresholds are so high that this is what it comes to
    try:
        model = asked.models.get(keys[0], None).model
        model.__dict__["itself"] = model
        gone = weakref.ref(model)
        del model
        asked.replies(message(keys[1], QUESTION))
        assert gone() is None
    finally:
        gc.enable()


def test_damaged_files_are_everybodys_problem(tmp_path: Path, files: Files) -> None:
    key = folder_store(tmp_path / "artifacts").put("models/m", files)
    (tmp_path / "artifacts" / key / TENSORS).write_bytes(b"damaged")
    replies = engine(tmp_path).replies(message(key, QUESTION, QUESTION))
    assert [reply["code"] for reply in replies if isinstance(reply, dict)] == ["bad_artifact"] * 2


class Broken(Dawdler):
    """Fails in one way."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def answer(self, questions: Sequence[Question], budget: Budget) -> list[Answers | CtpError]:
        raise self.error


@pytest.mark.parametrize(
    ("error", "code"),
    [(MemoryError(), "out_of_memory"), (OperationalError("SELECT", None, Exception()), "part_is_away")],
)
def test_what_may_be_better_later_is_a_503(tmp_path: Path, files: Files, error: Exception, code: str) -> None:
    key = folder_store(tmp_path / "artifacts").put("models/m", files)
    asked = engine(tmp_path)
    asked.models.get(key, None).model = Broken(error)
    (reply,) = asked.replies(message(key, QUESTION))
    assert isinstance(reply, dict)
    assert (reply["status"], reply["code"]) == (503, code)
