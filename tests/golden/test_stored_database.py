"""A database and a store of files that version 0.1.0 left behind are taken over by the service as it is now."""

import gzip
import io
import json
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.db.engine import Database
from service.db.migrate import check_schema
from service.facts.files import KbFiles
from service.preparing import prepare
from service.settings import Settings
from tests.golden.comparing import check_answers, check_proofs, check_rules, plain_rules
from tests.running import running_service

FOLDER = Path(__file__).parent / "v0.1.0"
RECORDED: dict[str, Any] = json.loads(gzip.decompress((FOLDER / "database.json.gz").read_bytes()))
RESUMED_SECONDS = 240
STARTED = datetime.now(UTC)


def unpack_data(folder: Path) -> None:
    """The data folder of a service that was stopped."""
    (folder / "ctp.db").write_bytes(gzip.decompress((FOLDER / "ctp.db.gz").read_bytes()))
    packed = gzip.decompress((FOLDER / "artifacts.tar.gz").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")


def items(client: httpx.Client, path: str, **parameters: Any) -> list[dict[str, Any]]:
    page = client.get(path, params={"limit": 1000, **parameters}).raise_for_status().json()
    assert page["next_cursor"] is None
    found: list[dict[str, Any]] = page["items"]
    return found


def kept(recorded: Any, now: Any) -> Any:
    """What was told then, as it is told now; a later version may tell more, at any depth."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        return {key: kept(value, now.get(key)) for key, value in recorded.items()}
    if isinstance(recorded, list) and isinstance(now, list) and len(recorded) == len(now):
        return [kept(value, told) for value, told in zip(recorded, now, strict=True)]
    return now


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The service as it is now, started on that data folder."""
    folder = tmp_path_factory.mktemp("v0_1_0")
    unpack_data(folder)
    with running_service(folder) as service, service.client() as client:
        client.headers["Authorization"] = f"Bearer {RECORDED['keys']['write']}"
        yield client


def test_the_database_is_migrated_to_the_newest_schema(tmp_path: Path) -> None:
    unpack_data(tmp_path)
    settings = Settings(data_dir=tmp_path)
    database = Database(settings.database)
    prepare(database, KbFiles.of(settings))
    check_schema(database.engine)
    database.dispose()


@pytest.mark.slow
def test_stored_keys_open_what_they_did(upgraded: httpx.Client) -> None:
    def status(key: str) -> int:
        headers = {"Authorization": f"Bearer {RECORDED['keys'][key]}"}
        return upgraded.delete("/models/unknown@1", headers=headers).status_code

    assert {key: status(key) for key in RECORDED["keys"]} == {"read": 403, "write": 404, "admin": 404, "revoked": 401}


@pytest.mark.slow
def test_stored_kbs_have_their_facts(upgraded: httpx.Client) -> None:
    for recorded in RECORDED["kbs"]:
        assert kept(recorded, upgraded.get(f"/kbs/{recorded['id']}").json()) == recorded
    for kb, facts in RECORDED["facts"].items():
        assert items(upgraded, f"/kbs/{kb}/facts") == facts


@pytest.mark.slow
def test_stored_jobs_are_listed_with_how_they_ended(upgraded: httpx.Client) -> None:
    now = {job["id"]: job for job in items(upgraded, "/jobs")}
    assert {job["status"] for job in RECORDED["jobs"]} == {"succeeded", "failed", "cancelled"}
    for recorded in RECORDED["jobs"]:
        assert kept(recorded, now[recorded["id"]]) == recorded


@pytest.mark.slow
def test_stored_models_keep_their_versions_aliases_tags_and_metrics(upgraded: httpx.Client) -> None:
    now = {model["id"]: model for model in items(upgraded, "/models")}
    for recorded in RECORDED["models"]:
        assert kept(recorded, now[recorded["id"]]) == recorded
    for model, epochs in RECORDED["metrics"].items():
        assert items(upgraded, f"/models/{model}/metrics") == epochs
    for model, checkpoints in RECORDED["checkpoints"].items():
        assert upgraded.get(f"/models/{model}/checkpoints").json()["items"] == checkpoints


@pytest.mark.slow
def test_stored_rules_are_listed_and_their_groundings_found(upgraded: httpx.Client) -> None:
    for model, rules in RECORDED["rules"].items():
        found = items(upgraded, f"/models/{model}/rules", min_support=0, constants=True, priors=True)
        check_rules(rules, plain_rules(found), "facts")
    best = items(upgraded, "/models/family@champion/rules")[0]
    groundings = upgraded.get(f"/models/family@champion/rules/{best['id']}/groundings").json()
    assert groundings["items"]


@pytest.mark.slow
@pytest.mark.parametrize("model", sorted(RECORDED["questions"]))
def test_a_stored_model_answers(upgraded: httpx.Client, model: str) -> None:
    def ask(question: dict[str, Any]) -> Any:
        return upgraded.post("/query", json={"model": model, **question}).raise_for_status().json()

    check_answers(RECORDED["questions"][model], ask)
    check_proofs(RECORDED["questions"][model], ask)


@pytest.mark.slow
def test_a_training_that_the_upgrade_interrupted_goes_on_from_its_checkpoint(upgraded: httpx.Client) -> None:
    job = upgraded.get(f"/jobs/{RECORDED['interrupted']}", params={"wait": RESUMED_SECONDS}, timeout=300).json()
    assert (job["status"], job["error"]) == ("succeeded", None)
    # One that began anew would have written its first epoch again.
    first = upgraded.get(f"/models/{job['model_id']}/metrics", params={"limit": 1}).json()["items"][0]
    assert (first["epoch"], datetime.fromisoformat(first["created_at"]) < STARTED) == (1, True)
