"""Ties a store of files to its database by an id that both hold.

Without the id, `ctp gc` could not tell another service's files from files that nobody needs, nor a folder that is not
mounted from a new one.
"""

from sqlalchemy.orm import Session

from service.db.engine import Database, lock_name
from service.db.tables import Store
from service.files.garbage import known_keys
from service.files.storage import Storage, StorageAway, StorageRefused
from service.names import new_id

ONE = 1
OTHERS = "the store belongs to another database (`ctp migrate --take-store` assigns it to this one)"
LOST = "the store has no mark, but models should be in it (if they are lost, run `ctp migrate --take-store`)"


def adopt(database: Database, storage: Storage, take: bool = False) -> None:
    """Marks a new store as this database's; safe to repeat and to interrupt.

    Raises StorageRefused for another database's store, and StorageAway if the mark is missing though models should be
    there. `take` overrides both.
    """
    marked = storage.mark()
    with database.write() as session:
        lock_name(session, "store")
        store = session.get(Store, ONE)
        if not take and marked is None and store is not None and known_keys(session):
            raise StorageAway(LOST)
        store = store or _new(session)
        if not take and marked is not None and marked != store.id:
            raise StorageRefused(OTHERS)
        if marked != store.id:
            storage.set_mark(store.id)


def check(database: Database, storage: Storage) -> None:
    """Raises StorageError if the store cannot be used or belongs to another database."""
    with database.read() as session:
        store = session.get(Store, ONE)
    if storage.check() != (store and store.id):
        raise StorageRefused(OTHERS)


def _new(session: Session) -> Store:
    store = Store(number=ONE, id=new_id("store"))
    session.add(store)
    return store
