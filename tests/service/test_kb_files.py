"""KBs as files: what is damaged, away, too large or half done is told, and nothing is lost."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import select, text

from ctp_core.errors import DamagedKB
from service.db.engine import Database
from service.db.migrate import migrate
from service.db.tables import Kb, SegmentRow
from service.errors import PayloadTooLarge
from service.facts.cache import WORK
from service.facts.duck import Duck, NoRoomForFacts, sorted_by_name
from service.facts.files import KbFiles
from service.facts.names import Names, write_names
from service.facts.reading import StoredFacts
from service.facts.segment import Segment
from service.facts.writing import Content
from service.files.garbage import find_garbage
from service.files.storage import MARK, FolderStorage, StorageAway
from service.files.store_owner import adopt
from service.kbs import service as kbs
from service.kbs.whole import KbRows
from service.preparing import prepare
from service.room import check_room, used_bytes
from service.samples import SAMPLES
from service.settings import Settings
from tests.built_kbs import built
from tests.stores import files_of, folder_store

GOLDEN = Path(__file__).parents[1] / "golden" / "v0.1.0"
NAMES = ["b", "ab", "abc", "é1", "\U0010ffffx", "a\tb", "%_", "ab\x01"]


@pytest.fixture
def storage(tmp_path: Path) -> FolderStorage:
    return folder_store(tmp_path / "artifacts")


def files_in(folder: Path, storage: FolderStorage, cache_bytes: int = 1 << 30) -> KbFiles:
    return KbFiles.of(Settings(cache_dir=str(folder), cache_bytes=cache_bytes), storage)


@pytest.fixture
def files(tmp_path: Path, storage: FolderStorage) -> KbFiles:
    return files_in(tmp_path / "cache", storage)


def content(num_facts: int = 500, seed: int = 0) -> Content:
    ids = np.random.default_rng(seed).integers(0, [20, 3, 20], (num_facts, 3))
    entities, predicates = [f"e{i}" for i in range(20)], ["p", "q", "r"]
    return Content("facts", entities, predicates, ids, np.zeros(num_facts, np.uint8))


def opened(files: KbFiles, segment: Segment) -> StoredFacts:
    return files.open(segment.key, "mine", "facts")


def test_names_are_found_by_number_by_name_and_by_prefix(tmp_path: Path, files: KbFiles) -> None:
    listed = np.array(NAMES, dtype=object)
    write_names(tmp_path / "x.names", NAMES, sorted_by_name(files.duck, listed), np.arange(len(NAMES)))
    names = Names(tmp_path / "x.names")
    assert list(names.all()) == [names.name(i) for i in range(len(names))] == NAMES
    assert [names.number(name) for name in NAMES] == list(range(len(NAMES)))
    assert names.number("a") is names.number("zz") is names.number("") is names.number("\ud800") is None
    assert names.num_facts.tolist() == list(range(len(NAMES)))
    for prefix in ("", "a", "ab", "abc", "é", "zz"):
        expected = sorted(name for name in NAMES if name.startswith(prefix))
        assert [names.name(i) for i in names.with_prefix(prefix)] == expected
        assert [names.name(i) for i in names.with_prefix(prefix, "ab")] == [name for name in expected if name > "ab"]


def test_a_fact_that_several_graphs_state_is_found_as_often_page_by_page(files: KbFiles) -> None:
    ids = np.array([[0, 0, 1], [0, 0, 1], [0, 0, 2], [0, 0, 1], [1, 0, 0]])
    facts = Content("graphs", ["a", "b", "c"], ["p"], ids, np.array([0, 0, 0, 2, 2], np.uint8))
    stored = files.open(files.write("kb_1", facts).key, "mine", "graphs")
    for fixed, number in (({}, 5), ({"subject": 0}, 4), ({"object": 1}, 3), ({"subject": 0, "object": 1}, 3)):
        whole, after = stored.found(fixed, None, 100), None
        assert len(whole) == number
        for row in whole:
            assert stored.found(fixed, after, 1) == [row]
            after = row.key
        assert stored.found(fixed, after, 1) == []
    assert stored.of_predicate(0, "test")["position"].tolist() == [3, 4]


def test_a_kb_without_a_copy_here_is_fetched_once(tmp_path: Path, files: KbFiles, storage: FolderStorage) -> None:
    segment = files.write("kb_1", content())
    other = files_in(tmp_path / "other", storage)
    first = opened(other, segment).found({}, None, 1000)
    (tmp_path / "artifacts").rename(tmp_path / "elsewhere")
    assert opened(other, segment).found({}, None, 1000) == first == opened(files, segment).found({}, None, 1000)


@pytest.mark.parametrize("name", ["entities.names", "upload.parquet", "manifest.json"])
def test_a_file_that_is_damaged_in_the_store_is_told_as_such(
    tmp_path: Path, files: KbFiles, storage: FolderStorage, name: str
) -> None:
    segment = files.write("kb_1", content())
    path = storage.root / segment.key / name
    path.write_bytes(path.read_bytes()[:-9] + b"otherwise")
    with pytest.raises(DamagedKB, match="damaged"):
        opened(files_in(tmp_path / "other", storage), segment)
    assert list((tmp_path / "other" / WORK).iterdir()) == []


@pytest.mark.parametrize("name", ["ops.parquet", "manifest.json"])
def test_a_file_that_is_gone_from_the_store_is_told_as_such(
    tmp_path: Path, files: KbFiles, storage: FolderStorage, name: str
) -> None:
    segment = files.write("kb_1", content())
    (storage.root / segment.key / name).unlink()
    with pytest.raises(DamagedKB, match="gone: restore them from a backup") as caught:
        opened(files_in(tmp_path / "other", storage), segment)
    assert caught.value.code == "kb_damaged"


def test_a_store_that_is_away_is_told_from_one_that_lost_a_file(
    tmp_path: Path, files: KbFiles, storage: FolderStorage
) -> None:
    segment = files.write("kb_1", content())
    (storage.root / MARK).unlink()
    (storage.root / segment.key / "manifest.json").unlink()
    with pytest.raises(StorageAway):
        opened(files_in(tmp_path / "other", storage), segment)


@pytest.mark.parametrize("name", ["sop.parquet", "entities.names"])
def test_a_copy_that_is_damaged_is_told_once_and_fetched_again(
    tmp_path: Path, files: KbFiles, storage: FolderStorage, name: str
) -> None:
    segment = files.write("kb_1", content())
    expected = opened(files, segment).found({"subject": 3}, None, 1000)
    copy = tmp_path / "cache" / segment.key.rsplit("/", 1)[1] / name
    copy.write_bytes(b"PAR1" + b"\0" * 50)
    again = files_in(tmp_path / "cache", storage)
    with pytest.raises(DamagedKB, match="try again"):
        opened(again, segment).found({"subject": 3}, None, 1000)
    assert opened(again, segment).found({"subject": 3}, None, 1000) == expected


def test_the_cache_keeps_what_was_used_last_and_what_is_being_read(tmp_path: Path, storage: FolderStorage) -> None:
    files = files_in(tmp_path / "cache", storage, cache_bytes=1)
    segments = [files.write(f"kb_{seed}", content(seed=seed)) for seed in range(3)]

    def copies() -> set[str]:
        return {path.name for path in (tmp_path / "cache").iterdir() if path.name != WORK}

    keys = [segment.key.rsplit("/", 1)[1] for segment in segments]
    assert copies() == {keys[2]}
    with files.cache.files(segments[0].key), files.cache.files(segments[1].key):
        assert copies() == {keys[0], keys[1]}
    opened(files, segments[2])
    assert copies() == {keys[2]}


def test_what_a_killed_process_was_writing_is_removed(tmp_path: Path, files: KbFiles) -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom service.facts.cache import Cache\n"
        "with Cache(None, Path(sys.argv[1]), 1).work_folder() as folder:\n"
        "    (folder / 'half').write_bytes(b'x' * 1000)\n    os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "cache")], check=False, env=dict(os.environ), timeout=60)
    (left,) = (tmp_path / "cache" / WORK).iterdir()
    with files.cache.work_folder() as mine:
        assert not left.exists()
        with files.cache.work_folder():
            assert mine.exists()


def test_duckdb_reaches_no_other_files_no_network_and_no_settings(tmp_path: Path) -> None:
    duck = Duck(tmp_path / "cache", 64 << 20)
    (tmp_path / "secret.csv").write_text("a,b\n")
    for sql in (
        f"SELECT * FROM read_csv('{tmp_path}/secret.csv')",
        f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
        "SELECT * FROM read_parquet('https://example.org/x.parquet')",
        "INSTALL httpfs",
        "SET memory_limit = '10GB'",
        "SET enable_external_access = true",
        f"ATTACH '{tmp_path}/x.db'",
    ):
        with pytest.raises(DamagedKB):
            duck.fetch(sql)
    assert not (tmp_path / "out.csv").exists()
    duck.close()


def test_facts_that_take_more_memory_than_allowed_say_which_setting_helps(tmp_path: Path) -> None:
    duck = Duck(tmp_path / "cache", 32 << 20)
    with pytest.raises(NoRoomForFacts, match="CTP_DUCKDB_MEMORY_BYTES") as caught:
        duck.fetch("SELECT list(range) AS all FROM range(50000000)")
    assert caught.value.code == "facts_out_of_memory"
    assert duck.fetch("SELECT 1 AS one")["one"].tolist() == [1]
    duck.close()


def test_more_than_the_memory_holds_is_sorted_on_disk(tmp_path: Path, storage: FolderStorage) -> None:
    settings = Settings(cache_dir=str(tmp_path / "cache"), duckdb_memory_bytes=32 << 20)
    files = KbFiles.of(settings, storage)
    ids = np.random.default_rng(0).integers(0, [100_000, 5, 100_000], (600_000, 3))
    facts = Content("facts", [f"e{i}" for i in range(100_000)], list("pqrst"), ids, np.zeros(600_000, np.uint8))
    stored = opened(files, files.write("kb_1", facts))
    rows = ids[ids[:, 0] == 77]
    found = stored.found({"subject": 77}, None, 1000)
    assert [[row.subject, row.predicate, row.object] for row in found] == sorted(
        rows.tolist(), key=lambda row: (row[2], row[1])
    )


def test_files_of_a_kb_are_no_garbage_and_are_missed(sqlite_database: Database) -> None:
    files = files_of(sqlite_database)
    kb, _ = kbs.create(sqlite_database, files, "t", "mine", built([("a", "p", "b")]))
    unknown = files.write("kb_gone", content())
    findings = find_garbage(sqlite_database, files.storage, 0)
    assert [entry.key for entry in findings.orphans] == [unknown.key]
    assert findings.missing == []
    files.storage.delete(f"kbs/{kb.id}")
    assert len(find_garbage(sqlite_database, files.storage, 0).missing) == 1


def test_a_tenant_stores_no_more_than_it_may_and_is_told_how_to_make_room(either_database: Database) -> None:
    files = files_of(either_database)
    kbs.create(either_database, files, "t", "mine", built([("a", "p", "b")]))
    with either_database.write() as session:
        used = used_bytes(session, "t")
        assert used == session.scalar(select(SegmentRow.num_bytes)) > 0
        assert used_bytes(session, "other") == 0
        check_room(session, "t", 5, Settings(max_tenant_bytes=used + 5))
        with pytest.raises(PayloadTooLarge, match="DELETE /kbs") as caught:
            check_room(session, "t", 6, Settings(max_tenant_bytes=used + 5))
    assert (caught.value.code, caught.value.extra["used_bytes"]) == ("too_much_stored", used)
    kbs.delete(either_database, "t", "mine")
    with either_database.write() as session:
        check_room(session, "t", 5, Settings(max_tenant_bytes=5))


class FailingStorage(FolderStorage):
    """A store that goes away after some writes."""

    def __init__(self, root: Path, writes: int) -> None:
        super().__init__(root)
        self.writes = writes

    def put_paths(self, owner: str, manifest: bytes, paths: Mapping[str, Path]) -> str:
        self.writes -= 1
        if self.writes < 0:
            raise StorageAway("the store went away")
        return super().put_paths(owner, manifest, paths)


@pytest.fixture
def former(tmp_path: Path) -> Iterator[Database]:
    """A database of version 0.1.0."""
    (tmp_path / "ctp.db").write_bytes(gzip.decompress((GOLDEN / "ctp.db.gz").read_bytes()))
    database = Database(f"sqlite:///{tmp_path / 'ctp.db'}")
    yield database
    database.dispose()


@pytest.mark.slow
def test_a_move_that_is_broken_off_loses_nothing_and_goes_on(former: Database, tmp_path: Path) -> None:
    with former.engine.connect() as connection:
        before = connection.execute(text("SELECT count(*) FROM kbs WHERE status = 'ready'")).scalar_one()
    assert not migrate(former.engine)
    failing = KbFiles.of(Settings(data_dir=tmp_path), FailingStorage(tmp_path / "artifacts", 3))
    adopt(former, failing.storage, take=True)
    with pytest.raises(StorageAway):
        prepare(former, failing)
    with former.read() as session:
        moved = set(session.scalars(select(SegmentRow.kb)))
        left = set(session.scalars(text("SELECT DISTINCT kb FROM symbols")))
    assert (len(moved), moved & left, len(moved | left) >= before) == (3, set(), True)
    files = KbFiles.of(Settings(data_dir=tmp_path))
    prepare(former, files)
    with former.read() as session:
        rows = [KbRows.of(session, kb) for kb in session.scalars(select(Kb).where(Kb.status == "ready"))]
    assert len(rows) >= before
    for one in rows:
        stored = one.open(files)
        assert (len(stored.entities), len(stored.predicates)) == (one.kb.num_entities, one.kb.num_predicates)
        assert sum(len(piece["subject"]) for piece in stored.pieces()) == one.kb.num_facts


@pytest.mark.slow
def test_samples_whose_store_was_lost_are_written_again(sqlite_database: Database, tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    prepare(sqlite_database, KbFiles.of(settings))
    (tmp_path / "artifacts").rename(tmp_path / "lost")
    with pytest.raises(StorageAway):
        prepare(sqlite_database, KbFiles.of(settings))
    fresh = KbFiles.of(settings.model_copy(update={"cache_dir": str(tmp_path / "fresh")}))
    assert prepare(sqlite_database, fresh, take_store=True) == len(SAMPLES)
    for name in SAMPLES:
        rows = kbs.rows_of(sqlite_database, "t", name)
        lines = b"".join(kbs.export(sqlite_database, fresh, rows, "jsonl", None)).splitlines()
        assert len(lines) == rows.kb.num_facts
        assert json.loads(lines[0])["predicate"]


def test_the_same_facts_make_the_same_files(files: KbFiles) -> None:
    segments = [files.write(f"kb_{number}", content()) for number in range(2)]
    assert len({segment.key.rsplit("/", 1)[1] for segment in segments}) == 1
    assert replace(segments[0], key="") == replace(segments[1], key="")
