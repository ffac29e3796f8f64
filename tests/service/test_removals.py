"""Files that nothing needs any more, and what cannot be removed now."""

from pathlib import Path

import pytest

from service import dispatch
from service.db.engine import Database
from service.db.migrate import migrate
from service.dispatch import Dispatcher
from service.files import removals
from service.files.store_owner import adopt
from service.settings import Settings


@pytest.fixture
def dispatcher(tmp_path: Path) -> Dispatcher:
    made = Dispatcher(Settings(data_dir=tmp_path, redis_url="redis://127.0.0.1:1"))
    migrate(made.database.engine)
    adopt(made.database, made.storage)
    return made


def due(database: Database, limit: int = 100) -> list[str]:
    with database.read() as session:
        return [removal.owner for removal in removals.due(session, limit)]


def test_what_cannot_be_removed_keeps_nothing_else_from_going(
    dispatcher: Dispatcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = f"models/{'m' * 300}"  # no file system takes such a name: every call with it fails
    for number in (1, 2):
        (tmp_path / "artifacts" / "models" / f"{number}").mkdir(parents=True)
    with dispatcher.database.write() as session:
        for owner in (stuck, "models/1", stuck, stuck, "models/2"):
            removals.remove_later(session, owner)
    monkeypatch.setattr(dispatch, "REMOVAL_BATCH", 2)  # smaller than the number of those that fail
    dispatcher.sweep_files()
    assert not (tmp_path / "artifacts" / "models" / "1").exists()
    dispatcher.sweep_files()
    dispatcher.sweep_files()
    assert not (tmp_path / "artifacts" / "models" / "2").exists()
    assert due(dispatcher.database) == [], "those that failed are put off"
    monkeypatch.setattr(removals, "now", lambda: dispatch.PUT_OFF_SECONDS + 4e9)
    assert due(dispatcher.database) == [stuck] * 3, "and tried again later"
