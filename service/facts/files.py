"""The files of all KBs: writes new ones into the store, opens those that are there."""

import threading
from collections import OrderedDict
from collections.abc import Mapping

from ctp_core.errors import ArtifactError, DamagedKB
from ctp_core.manifest import MANIFEST
from service.facts.cache import Cache
from service.facts.duck import Duck
from service.facts.names import Names
from service.facts.reading import ENTITY, PREDICATE, StoredFacts
from service.facts.segment import ENTITIES, FILES, PREDICATES, Segment
from service.facts.writing import Content, write_segment
from service.files.storage import Storage
from service.files.stores import make_storage
from service.settings import Settings

MAX_OPEN = 64  # KBs whose dictionaries stay mapped into memory


def owner_of(kb_id: str) -> str:
    """The owner of a KB's files in the store."""
    return f"kbs/{kb_id}"


class KbFiles:
    """What a process needs to read and write KBs; threads may share it."""

    def __init__(self, storage: Storage, cache: Cache, duck: Duck) -> None:
        self.storage, self.cache, self.duck = storage, cache, duck
        self._lock = threading.Lock()
        self._names: OrderedDict[str, Mapping[str, Names]] = OrderedDict()

    @classmethod
    def of(cls, settings: Settings, storage: Storage | None = None) -> "KbFiles":
        folder, storage = settings.cache.absolute(), storage or make_storage(settings)
        return cls(storage, Cache(storage, folder, settings.cache_bytes), Duck(folder, settings.duckdb_memory_bytes))

    def write(self, kb_id: str, content: Content) -> Segment:
        """Writes the files of a KB; they are stored durably when this returns."""
        with self.cache.work_folder() as folder:
            manifest = write_segment(self.duck, folder, content)
            paths = {name: folder / name for name in FILES}
            num_bytes = len(manifest) + sum(path.stat().st_size for path in paths.values())
            key = self.storage.put_paths(owner_of(kb_id), manifest, paths)
            self.cache.keep(key, folder)
        return Segment(key, num_bytes, len(content.ids))

    def has(self, key: str) -> bool:
        """Tells whether the store has the files; raises StorageError if that cannot be told."""
        try:
            return next(iter(self.storage.pieces(key, MANIFEST)), None) is not None
        except ArtifactError:
            return False

    def open(self, key: str, name: str, kind: str) -> StoredFacts:
        """Opens the facts of a KB of this name; raises DamagedKB and StorageError as `Cache.files`."""
        return StoredFacts(key, name, kind, self.cache, self.duck, self._opened(key))

    def _opened(self, key: str) -> Mapping[str, Names]:
        with self._lock:
            known = self._names.get(key)
            if known is not None:
                self._names.move_to_end(key)
                return known
        with self.cache.files(key) as folder:
            try:
                names = {ENTITY: Names(folder / ENTITIES), PREDICATE: Names(folder / PREDICATES)}
            except (DamagedKB, FileNotFoundError) as error:
                self.cache.drop(key)
                raise DamagedKB(f"the names of the files {key!r} are damaged here ({error}): try again") from error
        with self._lock:
            self._names[key] = names
            while len(self._names) > MAX_OPEN:
                self._names.popitem(last=False)
        return names

    def close(self) -> None:
        self._names.clear()
        self.duck.close()
