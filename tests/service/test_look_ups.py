"""Keys and targets of queries are looked up, whatever other calls do meanwhile."""

import asyncio
import threading
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from sqlalchemy.pool import QueuePool

from service.app import create_app
from service.db.engine import Database
from service.db.migrate import migrate
from service.db.tables import ModelVersion
from service.errors import NotFound
from service.keys.service import create
from service.queries.batcher import Target
from service.queries.service import THREADS, Targets
from service.settings import Settings


def test_keys_are_looked_up_while_routes_hold_all_connections(tmp_path: Path) -> None:
    app = create_app(Settings(data_dir=tmp_path, redis_url="redis://127.0.0.1:1"))
    database: Database = app.state.database
    migrate(database.engine)
    key = create(database, "mine", "read", "test")
    pool = database.engine.pool
    assert isinstance(pool, QueuePool)

    async def ask() -> int:
        transport = httpx.ASGITransport(app)
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return (await client.get("/formats", headers=headers)).status_code

    with ExitStack() as held:
        for _ in range(pool.size() + pool._max_overflow):
            held.enter_context(database.engine.connect())
        assert asyncio.run(ask()) == 200
    database.dispose()


def test_damage_that_one_of_two_twins_finds_is_known_to_both(sqlite_database: Database) -> None:
    twin = sqlite_database.twin()
    twin._damage.set()
    assert sqlite_database.damaged
    twin.dispose()


class SlowForA(Targets):
    """What tenant `a` names is looked for until `over`."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.over = threading.Event()

    def _target(self, tenant: str, model_name: str, kb_name: str | None) -> Target:
        assert tenant != "a" or self.over.wait(30)
        return Target(tenant, model_name, "", kb_name)


def test_a_tenant_whose_names_take_long_to_find_holds_up_nobody_else(sqlite_database: Database) -> None:
    targets = SlowForA(sqlite_database)

    async def ask() -> str:
        slow = [asyncio.ensure_future(targets.find(("a", str(number), None))) for number in range(THREADS)]
        await asyncio.sleep(0)
        found = await targets.find(("b", "m", None))
        targets.over.set()
        await asyncio.gather(*slow)
        return found.model_id

    assert asyncio.run(ask()) == "m"
    targets.stop()


def test_a_model_that_was_missed_is_found_as_soon_as_it_is_there(sqlite_database: Database) -> None:
    targets = Targets(sqlite_database)

    async def ask() -> str:
        with pytest.raises(NotFound, match="there is no model 'new'"):
            await targets.find(("a", "new", None))
        with sqlite_database.write() as session:
            session.add(
                ModelVersion(
                    id="model_new",
                    tenant="a",
                    name="new",
                    version=1,
                    status="ready",
                    kind="facts",
                    method="proofs",
                    config={},
                    metrics={},
                    tags={},
                    kb_sha256="",
                    code_version="",
                    artifact="models/x",
                )
            )
        return (await targets.find(("a", "new", None))).model_id

    assert asyncio.run(ask()) == "model_new"
    targets.stop()
