"""Mixed traffic with kills of every part, for a long time: afterwards the service holds no more than before.

SOAK_MINUTES (30) says how long, SOAK_SEED (0) which dice.
"""

import os
import random
import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from sqlalchemy import update

from service.db.engine import Database
from service.db.tables import ModelVersion, Removal
from service.local.cluster import wait_for
from service.models.staging import ABANDONED_SECONDS, IMPORTING
from tests.faults.watching import FAST
from tests.running import RunningService, running_service
from tests.soak.inventory import Inventory
from tests.soak.traffic import STORIES, Record, Visitor, visit

MINUTES, SEED = float(os.environ.get("SOAK_MINUTES", "30")), int(os.environ.get("SOAK_SEED", "0"))
VISITORS = 4
KILL_EVERY_SECONDS = (5.0, 25.0)
KILLED = {"api", "train", "query", "dispatch"}
# A removed model's files stay for as long as a query may need them; a part that was killed starts within a minute.
QUIET_SECONDS = 240


@pytest.mark.long
@pytest.mark.timeout(MINUTES * 60 + 1800)
def test_nothing_grows_under_mixed_traffic_with_kills(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    own = {"max_attempts": "1000", "query_processes": "2", "reply_seconds": "10"}
    with running_service(tmp_path, {"TMPDIR": str(tmp_path / "tmp")}, **FAST | own) as service:
        warm_up(service)
        before = Inventory.take(service)
        print(f"before\n{before}")
        record = disturbed(service)
        clean_up(service)
        after = Inventory.take(service)
        print(f"after {MINUTES:g} minutes, seed {SEED}\n{record}\n{after}")
    assert not record.faults, record.faults[:20]
    assert set(record.ended) == set(STORIES), "every story was lived through at least once"
    assert after.growth_since(before) == []


def warm_up(service: RunningService) -> None:
    """Every story once, so that what is loaded when it is first needed is loaded."""
    record = Record()
    with service.client() as client:
        for story in STORIES:
            Visitor(service, client, record, random.Random(SEED)).tell(story)
    assert not record.faults, record.faults
    clean_up(service)


def disturbed(service: RunningService) -> Record:
    over = threading.Event()
    killer = threading.Thread(target=kill_parts, args=(service, over))
    killer.start()
    try:
        return visit(service, VISITORS, MINUTES * 60, SEED)
    finally:
        over.set()
        killer.join()


def kill_parts(service: RunningService, over: threading.Event) -> None:
    """A worker as a whole or one of its children, the dispatcher, or the API."""
    dice = random.Random(SEED)
    while not over.wait(dice.uniform(*KILL_EVERY_SECONDS)):
        parts = {name: number for name, number in service.children().items() if name in KILLED}
        if not parts:
            continue
        process = psutil.Process(dice.choice(list(parts.values())))
        children = process.children(recursive=True)
        victim = dice.choice(children) if children and dice.random() < 0.6 else process
        try:
            victim.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue


def clean_up(service: RunningService) -> None:
    """Deletes whatever visitors could not, and waits until the service has removed it all."""
    with service.client() as client:
        wait_for(lambda: client.get("/readyz").status_code == 200, "all parts are back", QUIET_SECONDS)
        for status in ("queued", "running"):
            for job in items(client, "/jobs", status=status):
                client.post(f"/jobs/{job['id']}/cancel")
        for model in items(client, "/models"):
            client.delete(f"/models/{model['id']}")
        for kb in items(client, "/kbs"):
            client.delete(f"/kbs/{kb['id']}")  # samples stay: 409
        let_an_hour_pass(service)
        wait_for(lambda: at_rest(service), "all that was deleted is gone", QUIET_SECONDS)


def let_an_hour_pass(service: RunningService) -> None:
    """An import whose API was killed is taken for abandoned after an hour: what it has left is made as old."""
    database = Database(f"sqlite:///{service.folder / 'ctp.db'}")
    with database.write() as session:
        session.execute(update(Removal).values(due_at=Removal.due_at - ABANDONED_SECONDS))
        broken_off = update(ModelVersion).where(ModelVersion.tenant == IMPORTING)
        session.execute(broken_off.values(created_at=ModelVersion.created_at - ABANDONED_SECONDS))
    database.dispose()


def items(client: httpx.Client, path: str, **wanted: str) -> list[dict[str, Any]]:
    found, cursor = [], None
    while True:
        page = client.get(path, params={"limit": 1000, **wanted, **({"cursor": cursor} if cursor else {})}).json()
        found += page["items"]
        if (cursor := page["next_cursor"]) is None:
            return found


def at_rest(service: RunningService) -> bool:
    with service.client() as client:
        samples = len([kb for kb in items(client, "/kbs") if kb["sample"]])
        ready = client.get("/readyz").status_code == 200
    rows = Inventory.take(service).rows
    return ready and rows["kbs"] == samples and rows["removals"] == rows["outbox"] == rows["rules"] == 0
