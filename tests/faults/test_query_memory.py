"""A query that takes more memory than its process may: the process is ended, and the sender told why."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from ctp_core.artifact import Artifact, encode
from ctp_core.methods import parse_config
from ctp_core.registry import create_trainer
from service.samples import read_sample
from tests.stores import folder_store
from worker import memory
from worker.query_children import QueryChild, TooLarge

pytestmark = pytest.mark.slow
CONFIG = parse_config("facts", {"method": "proofs", "templates": {"1": 4}, "epochs": 1, "search": []})
ROOM, BALLAST = 60_000_000, 300_000_000
QUESTION = {
    "goal": [None, "parent", "morty"],
    "facts": 0,
    "top_k": 3,
    "proofs": 0,
    "depth": None,
    "exclude_known": False,
}


@contextmanager
def child(limit: int | None = None) -> Iterator[QueryChild]:
    started = QueryChild(limit)
    try:
        started.wait_until_ready()
        yield started
    finally:
        started.process.kill()
        started.process.wait()


def message(artifact: str) -> dict[str, Any]:
    asked = {"artifact": artifact, "kb_id": None, "model_id": "m", "request_ids": ["r"], "facts": [[]]}
    return asked | {"questions": [QUESTION], "seconds": 5.0, "seconds_left": 60.0}


def test_a_child_that_grows_past_its_limit_is_killed_and_others_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTP_DATA_DIR", str(tmp_path))
    trained = create_trainer(CONFIG, read_sample("family").kb, torch.device("cpu")).fit().to_artifact()
    heavy = Artifact(trained.manifest, trained.tensors | {"ballast": torch.zeros(BALLAST, dtype=torch.uint8)})
    store = folder_store(tmp_path / "artifacts")
    light, large = store.put("models/light", encode(trained)), store.put("models/large", encode(heavy))
    with child() as free:
        assert free.answer(message(large), 60).replies, "without a limit it is answered"
        assert free.answer(message(light), 60).replies
    with child(10**9) as bounded:
        bounded.limit = memory.resident_bytes(bounded.process.pid) + ROOM
        assert isinstance(bounded.answer(message(light), 60).replies[0], bytes)
        with pytest.raises(TooLarge):
            bounded.answer(message(large), 60)
        assert bounded.process.wait(10) != 0
