"""A store and its database know each other by an id that is in both."""

from collections.abc import Callable
from pathlib import Path

import pytest

from service.db.engine import Database
from service.db.migrate import migrate
from service.db.tables import ModelVersion
from service.files import store_owner
from service.files.storage import MARK, FolderStorage, StorageAway, StorageRefused
from service.health.service import storage_state

MODEL = {"id": "model_1", "tenant": "t", "name": "m", "version": 1, "status": "ready", "kb_sha256": "0" * 64}
MODEL |= {"kind": "facts", "method": "proofs", "config": {}, "metrics": {}, "tags": {}, "code_version": "1"}


def new_database(path: Path) -> Database:
    database = Database(f"sqlite:///{path}")
    migrate(database.engine)
    return database


@pytest.fixture
def storage(tmp_path: Path) -> FolderStorage:
    return FolderStorage(tmp_path / "artifacts")


@pytest.fixture
def database(tmp_path: Path, storage: FolderStorage) -> Database:
    """Whose store it is, with a model in it."""
    made = new_database(tmp_path / "ctp.db")
    store_owner.adopt(made, storage)
    with made.write() as session:
        session.add(ModelVersion(**MODEL, artifact=f"models/model_1/import/{'0' * 64}"))
    return made


def test_a_store_is_marked_once_for_its_database(database: Database, storage: FolderStorage) -> None:
    mark = storage.check()
    store_owner.adopt(database, storage)
    store_owner.check(database, storage)
    assert storage.check() == mark
    assert storage_state(database, storage) == "ok"


@pytest.mark.parametrize("call", [store_owner.adopt, store_owner.check])
def test_the_store_of_another_database_is_refused(
    database: Database, storage: FolderStorage, tmp_path: Path, call: Callable[[Database, FolderStorage], None]
) -> None:
    other = new_database(tmp_path / "other.db")
    with pytest.raises(StorageRefused, match="another database"):
        call(other, storage)
    assert storage_state(other, storage) == "storage_refused"
    store_owner.check(database, storage)


def test_a_store_that_should_hold_models_is_waited_for_and_not_made_anew(
    database: Database, storage: FolderStorage, tmp_path: Path
) -> None:
    storage.root.rename(tmp_path / "elsewhere")
    with pytest.raises(StorageAway, match="models should be in it"):
        store_owner.adopt(database, storage)
    assert storage_state(database, storage) == "storage_away"
    assert not storage.root.exists()
    (tmp_path / "elsewhere").rename(storage.root)
    assert storage_state(database, storage) == "ok"


def test_a_store_that_can_hold_nothing_is_marked_again(storage: FolderStorage, tmp_path: Path) -> None:
    """As after a kill between the row and the mark."""
    database = new_database(tmp_path / "ctp.db")
    store_owner.adopt(database, storage)
    (storage.root / MARK).unlink()
    store_owner.adopt(database, storage)
    store_owner.check(database, storage)


def test_who_knows_better_may_take_a_store(database: Database, storage: FolderStorage, tmp_path: Path) -> None:
    other = new_database(tmp_path / "other.db")
    store_owner.adopt(other, storage, take=True)
    store_owner.check(other, storage)
    with pytest.raises(StorageRefused):
        store_owner.check(database, storage)


def test_a_mark_that_cannot_be_read_is_nobodys(database: Database, storage: FolderStorage) -> None:
    (storage.root / MARK).write_bytes(b"")
    with pytest.raises(StorageRefused):
        store_owner.adopt(database, storage)
