"""Makes database and storage ready for this version, whatever version was there before."""

from service.db.engine import Database
from service.db.migrate import migrate
from service.facts.files import KbFiles
from service.files.store_owner import adopt
from service.kbs.moving import move
from service.samples import load_samples


def prepare(database: Database, files: KbFiles, take_store: bool = False) -> int:
    """Migrates the schema, marks the store, moves KBs of older versions into it, and loads the samples.

    Safe to repeat and to interrupt at any time; returns the number of samples. Raises StorageError if the store cannot
    be used.
    """
    is_whole = migrate(database.engine)
    adopt(database, files.storage, take_store)
    if not is_whole:
        move(database, files)
    return load_samples(database, files)
