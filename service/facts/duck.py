"""DuckDB in bounds: one thread, a memory limit, no network, no files but those of the cache, no extensions."""

import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctp_core.errors import DamagedKB
from service.facts.cache import WORK, locked_folder
from service.files.storage import StorageError

Arrays = dict[str, NDArray[Any]]
MAX_TEMPORARY = "64GiB"


class NoRoomForFacts(StorageError):
    """DuckDB has used up its memory, or the room for its temporary files."""

    code = "facts_out_of_memory"
    remedy = "raise CTP_DUCKDB_MEMORY_BYTES, or make room in CTP_CACHE_DIR"


class Duck:
    """The DuckDB of a process, opened at its first use; threads may share it."""

    def __init__(self, folder: Path, memory_bytes: int) -> None:
        """`folder` is the only one whose files it may read and write."""
        self.folder, self.memory_bytes = folder, memory_bytes
        self._lock = threading.Lock()
        self._connection: Any = None

    def _opened(self) -> Any:
        import duckdb  # noqa: PLC0415  slow to import, and not every process reads facts

        settings: dict[str, Any] = {
            "threads": 1,
            "memory_limit": f"{max(1, self.memory_bytes >> 10)}KiB",
            "temp_directory": str(self._spilled()),
            "max_temp_directory_size": MAX_TEMPORARY,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "python_enable_replacements": False,
        }
        connection = duckdb.connect(":memory:", config=settings)
        connection.execute("SET parquet_metadata_cache = true")
        connection.execute(f"SET allowed_directories = [{quoted(self.folder)}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        return connection

    def _spilled(self) -> Path:
        """Makes a folder for temporary files that is ours until this process ends."""
        folder = self.folder / WORK / f"spilled-{uuid.uuid4().hex}"
        self._lock_of_spilled = locked_folder(folder)
        return folder

    def _cursor(self) -> Any:
        with self._lock:
            if self._connection is None:
                self._connection = self._opened()
            return self._connection.cursor()

    def fetch(self, sql: str, values: tuple[Any, ...] = ()) -> Arrays:
        """Runs a query and returns its columns."""
        with self._used() as cursor:
            return dict(cursor.execute(sql, values).fetchnumpy())

    def run(self, sql: str, tables: Mapping[str, Mapping[str, NDArray[Any]]]) -> Arrays:
        """Runs a statement on arrays under the names of tables; returns the columns of its result, if it has one."""
        with self._used() as cursor:
            for name, columns in tables.items():
                cursor.register(name, dict(columns))
            try:
                return dict(cursor.execute(sql).fetchnumpy())
            finally:
                for name in tables:
                    cursor.unregister(name)

    @contextmanager
    def _used(self) -> Iterator[Any]:
        """Opens a cursor and closes it; raises NoRoomForFacts, and DamagedKB for whatever else DuckDB finds wrong."""
        import duckdb  # noqa: PLC0415

        cursor = self._cursor()
        try:
            yield cursor
        except duckdb.OutOfMemoryException as error:
            what = f"the facts do not fit into {self.memory_bytes} bytes"
            raise NoRoomForFacts(f"{what} ({_first_line(error)})") from error
        except duckdb.Error as error:
            if "No space left" in str(error):
                raise NoRoomForFacts(f"{self.folder} is full ({_first_line(error)})") from error
            raise DamagedKB(f"the facts cannot be read ({_first_line(error)})") from error
        finally:
            cursor.close()

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def quoted(path: Path) -> str:
    """Returns a path as a string of SQL."""
    return "'" + str(path).replace("'", "''") + "'"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def sorted_by_name(duck: Duck, names: NDArray[np.object_]) -> NDArray[np.int32]:
    """Returns the numbers of the names in the order of their bytes; Python's own sort would hold up other threads."""
    if not len(names):
        return np.zeros(0, np.int32)
    table = {"name": names, "number": np.arange(len(names), dtype=np.int32)}
    return np.asarray(duck.run("SELECT number FROM names ORDER BY name", {"names": table})["number"], np.int32)
