"""A model can be loaded before anybody asks it."""

import shutil
import uuid

import httpx
import pytest
from sqlalchemy import select

from service.db.engine import Database
from service.db.tables import ModelVersion
from service.settings import Settings
from tests.running import RunningService

pytestmark = pytest.mark.slow


def made(client: httpx.Client, kb: str = "family") -> dict[str, str]:
    body = {"kb": kb, "name": f"w-{uuid.uuid4().hex[:8]}", "config": {"method": "distmult", "search": [], "epochs": 1}}
    model: dict[str, str] = client.post("/train", params={"wait": 200}, json=body).json()["model"]
    assert model["status"] == "ready"
    return model


def hits(client: httpx.Client) -> list[str]:
    """What is counted of queries whose model was in memory, and of those whose was not."""
    return [line for line in client.get("/metrics").text.splitlines() if line.startswith("ctp_model_cache")]


def test_a_warmed_model_is_in_memory(client: httpx.Client) -> None:
    model = made(client)
    cold = client.post(f"/models/{model['name']}/warm")
    assert (cold.status_code, cold.json()["model_id"]) == (200, model["id"])
    again = client.post(f"/models/{model['id']}/warm").json()
    assert again["elapsed_ms"] < cold.json()["elapsed_ms"] + 5000
    goal = {"subject": "rick", "predicate": "grandparent", "object": None}
    assert client.post("/query", json={"model": model["id"], "goal": goal}).status_code == 200


def test_a_model_that_is_not_there_or_has_lost_its_files_is_not_warmed(
    client: httpx.Client, service: RunningService
) -> None:
    answer = client.post("/models/nobody/warm")
    assert (answer.status_code, answer.json()["code"]) == (404, "model_not_found")
    model = made(client)
    settings = Settings(data_dir=service.folder)
    database = Database(settings.database)
    with database.read() as session:
        artifact = session.scalars(select(ModelVersion.artifact).where(ModelVersion.id == model["id"])).one()
    database.dispose()
    shutil.rmtree(service.folder / "artifacts" / str(artifact))
    answer = client.post(f"/models/{model['id']}/warm")
    assert (answer.status_code, answer.json()["code"]) == (409, "bad_artifact")
