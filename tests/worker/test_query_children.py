"""The children of a query worker, as processes: what becomes of a batch, and of others, when one of them hangs."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from ctp_core.artifact import encode
from ctp_core.manifest import TENSORS
from ctp_core.methods import parse_config
from ctp_core.registry import create_trainer
from service.files.storage import Files
from service.health.counters import CACHE_MISSES, QUERIES_KILLED
from service.local.cluster import wait_for
from service.samples import read_sample
from service.settings import Settings
from tests.stores import folder_store
from worker.query_children import BUSY, QueryChild, QueryChildren

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
CONFIG = {"method": "ctp", "search": [], "epochs": 1}
HUB = [["hub", "parent", f"spoke {number}"] for number in range(1500)]  # a search of many seconds
QUESTION = {
    "goal": [None, "grandparent", "morty"],
    "facts": 0,
    "top_k": 3,
    "proofs": 1,
    "depth": None,
    "exclude_known": False,
}


@pytest.fixture(scope="module")
def files() -> Files:
    trainer = create_trainer(parse_config("facts", CONFIG), read_sample("family").kb, torch.device("cpu"))
    return encode(trainer.fit().to_artifact())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("children")


@pytest.fixture(scope="module")
def children(folder: Path) -> Iterator[QueryChildren]:
    values = {"data_dir": str(folder), "redis_url": "redis://127.0.0.1:1", "device": "cpu", "threads": "1"}
    values["query_grace_seconds"] = "0.5"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(f"CTP_{name.upper()}", value)
        made = QueryChildren(Settings())
        made.start()
        wait_for(lambda: made.shares.able == 2, "both children are ready")
        yield made
        processes = [child.process for child in running(made)]
        made.close()
        for process in processes:
            assert process.wait(10) == -signal.SIGKILL


def running(children: QueryChildren) -> list[QueryChild]:
    return [seat.child for seat in children.shares.seats if seat.child is not None]


def message(tenant: str, artifact: str, *request_ids: str) -> dict[str, Any]:
    model = {"tenant": tenant, "model_id": "m", "artifact": artifact, "kb_id": None}
    asked = {"questions": [QUESTION] * len(request_ids), "facts": [[]], "request_ids": list(request_ids)}
    return model | asked | {"seconds": 1.0}


def replies(children: QueryChildren, asked: dict[str, Any], seconds: float = 30) -> tuple[list[Any], Any]:
    return children._replies(asked, time.monotonic() + seconds)


def test_a_model_that_is_slow_to_load_keeps_no_other_tenant_waiting(
    children: QueryChildren, folder: Path, files: Files
) -> None:
    storage = folder_store(folder / "artifacts")
    slow, quick = storage.put("models/slow", files), storage.put("models/quick", files)
    pipe = folder / "artifacts" / slow / TENSORS
    pipe.unlink()
    os.mkfifo(pipe)  # whoever reads it waits until somebody writes
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(replies, children, message("a", slow, "1")) for _ in range(2)]
        wait_for(lambda: any(seat.holder for seat in children.shares.seats), "one of them has a child")
        (answer,), _ = replies(children, message("b", quick, "2"))
        assert isinstance(answer, bytes)
        assert not any(one.done() for one in waiting)
        pipe.write_bytes(files[TENSORS])
        first, second = (one.result(60) for one in waiting)
    assert first[0] == second[0] == [answer]
    assert first[1][CACHE_MISSES] + second[1][CACHE_MISSES] == 1, "the second batch waited for the same child"


def test_a_child_that_hangs_is_killed_and_each_request_of_its_batch_is_asked_alone(
    children: QueryChildren, folder: Path, files: Files
) -> None:
    key = folder_store(folder / "artifacts").put("models/hung", files)
    replies(children, message("a", key, "0"))
    with ThreadPoolExecutor(1) as pool:
        batch = pool.submit(replies, children, message("a", key, "1", "1", "2") | {"facts": [HUB]})
        wait_for(lambda: any(seat.holder for seat in children.shares.seats), "the batch has a child")
        (child,) = [seat.child for seat in children.shares.seats if seat.holder]
        assert child is not None
        time.sleep(0.3)  # until it searches
        os.kill(child.process.pid, signal.SIGSTOP)
        (other,), _ = replies(children, message("b", key, "3"))
        assert isinstance(other, bytes)
        answers, counts = batch.result(60)
    assert counts[QUERIES_KILLED] == 1
    assert [type(answer) for answer in answers] == [bytes] * 3
    assert child.process.wait(10) == -signal.SIGKILL


def test_a_request_that_hangs_alone_is_a_503_that_says_so_and_its_model_is_loaded_again(
    children: QueryChildren, folder: Path, files: Files
) -> None:
    key = folder_store(folder / "artifacts").put("models/alone", files)
    replies(children, message("a", key, "0"))
    wait_for(lambda: children.shares.able == 2, "both children are ready")
    with ThreadPoolExecutor(1) as pool:
        batch = pool.submit(replies, children, message("a", key, "1", "1") | {"facts": [HUB]})
        wait_for(lambda: any(seat.holder for seat in children.shares.seats), "the batch has a child")
        (child,) = [seat.child for seat in children.shares.seats if seat.holder]
        assert child is not None
        time.sleep(0.3)
        os.kill(child.process.pid, signal.SIGSTOP)
        answers, _ = batch.result(60)
    assert [(one["status"], one["code"]) for one in answers] == [(503, "query_too_long")] * 2
    assert "CTP_QUERY_SECONDS" in answers[0]["detail"]
    (again,), counts = replies(children, message("a", key, "2"))
    assert isinstance(again, bytes)
    assert counts[CACHE_MISSES] == 1


def test_a_child_that_is_killed_from_outside_costs_its_batch_another_try(
    children: QueryChildren, folder: Path, files: Files
) -> None:
    key = folder_store(folder / "artifacts").put("models/killed", files)
    wait_for(lambda: children.shares.able == 2, "both children are ready")
    with ThreadPoolExecutor(1) as pool:
        batch = pool.submit(replies, children, message("a", key, "1"))
        wait_for(lambda: any(seat.holder for seat in children.shares.seats), "the batch has a child")
        (child,) = [seat.child for seat in children.shares.seats if seat.holder]
        assert child is not None
        child.process.kill()
        (answer,), _ = batch.result(60)
    assert isinstance(answer, bytes)


def test_a_batch_that_gets_no_child_in_time_is_told(children: QueryChildren) -> None:
    assert replies(children, message("a", "models/none", "1"), seconds=-1)[0] == [BUSY]
