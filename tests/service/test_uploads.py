"""Uploads against the started service: formats, round trips, limits, large files, and what is left of a failed load."""

import gzip
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from ctp_core.kb.facts_builder import BuiltKB
from ctp_core.kb.formats.registry import FORMATS, formats_of
from ctp_core.symbols import Fact
from service import leadership
from service.db.engine import Database
from service.errors import Conflict
from service.facts.reading import PIECE_FACTS
from service.files import removals
from service.kbs import repository, service, store
from service.kbs.whole import KbRows
from service.local.cluster import Cluster, wait_for
from tests.built_kbs import built
from tests.stores import files_of

pytestmark = pytest.mark.slow
FACTS = [
    ["rick", "parent of", "beth"],
    ["<script>alert(1)</script>", "../..", "\u202eabc"],
    ["tab\there", "new\nline", '"'],
]
CLUTRR = (
    b"id,story,target,story_edges,edge_types,query_edge,genders\n"
    b'1,"a, then b",grandson,"[(0, 1), (1, 2)]","[\'son\', \'son\']","(0, 2)","Ann:female,Bob:male,Cem:male"\n'
)


def upload(client: httpx.Client, name: str, content: bytes, file: str, **fields: str) -> httpx.Response:
    return client.post("/kbs", data={"name": name, **fields}, files={"file": (file, content)})


@pytest.mark.parametrize("format_name", formats_of("facts"))
def test_a_kb_goes_out_in_each_format_and_comes_back_as_the_same_kb(client: httpx.Client, format_name: str) -> None:
    kb = client.post("/kbs", json={"name": "travels", "facts": FACTS}).json()
    exported = client.get("/kbs/travels/export", params={"format": format_name})
    assert exported.headers["content-type"].startswith(FORMATS[format_name].media_type)
    suffix = FORMATS[format_name].suffixes[0]
    back = upload(client, f"back-{format_name}", gzip.compress(exported.content), f"x{suffix}.gz").json()
    assert back["sha256"] == kb["sha256"]
    items = client.get(f"/kbs/back-{format_name}/facts").json()["items"]
    assert [[item["subject"], item["predicate"], item["object"]] for item in items] == FACTS


def test_graphs_are_uploaded_exported_and_uploaded_again(client: httpx.Client) -> None:
    kb = upload(client, "stories", CLUTRR, "1.2_train.csv").json()
    assert (kb["kind"], kb["num_facts"], kb["splits"]) == ("graphs", 2, {"train": 1})
    exported = client.get("/kbs/stories/export").content
    assert json.loads(exported) == {
        "facts": [["Ann", "son", "Bob"], ["Bob", "son", "Cem"]],
        "subject": "Ann",
        "object": "Cem",
        "label": "grandson",
    }
    unseen = CLUTRR.replace(b"'son', 'son'", b"'son', 'nephew'").replace(b"grandson", b"nobody")
    files = {"train": ("1.2_train.csv", CLUTRR), "test": ("1.2_test.csv", unseen)}
    split = client.post("/kbs", data={"name": "stories-split"}, files=files)
    assert (split.status_code, split.json()["splits"]) == (201, {"train": 1, "test": 1})
    assert ["1.2_test.csv, line 2" in warning for warning in split.json()["warnings"]] == [True, True]
    assert b"nephew" in client.get("/kbs/stories-split/export", params={"split": "test"}).content
    again = upload(client, "stories-again", exported, "x.jsonl", kind="graphs").json()
    assert again["sha256"] == kb["sha256"]
    refused = client.get("/kbs/stories/export", params={"format": "tsv"})
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_format")


def test_a_bad_line_names_file_line_and_reason_and_nothing_is_stored(client: httpx.Client) -> None:
    answer = upload(client, "bad-line", b"a\tp\tb\nonly one\n", "mine.tsv")
    assert answer.status_code == 422
    assert {key: answer.json()[key] for key in ("code", "file", "line")} == {
        "code": "bad_line",
        "file": "mine.tsv",
        "line": 2,
    }
    assert client.get("/kbs/bad-line").status_code == 404


def test_a_bomb_is_refused_with_the_limit(client: httpx.Client) -> None:
    answer = upload(client, "bomb", gzip.compress(b"a\tp\tb\n" * 3_000_000), "x.tsv.gz")
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert "200 times" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [({"kind": "tables"}, "bad_kind"), ({"format": "xml"}, "bad_format"), ({"colour": "red"}, "unknown_field")],
)
def test_unknown_fields_kinds_and_formats_are_refused(client: httpx.Client, fields: dict[str, str], code: str) -> None:
    answer = upload(client, "unknown", b"a\tp\tb\n", "x.tsv", **fields)
    assert (answer.status_code, answer.json()["code"]) == (422, code)


def test_every_filter_finds_what_a_scan_finds(client: httpx.Client) -> None:
    facts = client.get("/kbs/nations/export", params={"format": "jsonl"}).text.splitlines()
    every = [tuple(json.loads(line).values()) for line in facts]
    chosen = every[777]
    for mask in range(1, 8):
        given = [mask >> place & 1 for place in range(3)]
        params = {name: chosen[i] for i, name in enumerate(("subject", "predicate", "object")) if given[i]}
        found, cursor = [], None
        while True:
            more = {"limit": 7} | ({"cursor": cursor} if cursor else {})
            page = client.get("/kbs/nations/facts", params={**params, **more}).json()
            found += [(f["subject"], f["predicate"], f["object"]) for f in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        expected = [fact for fact in every if all(fact[i] == chosen[i] for i in range(3) if given[i])]
        assert sorted(found) == sorted(expected), params


def test_the_neighbourhood_of_an_entity_is_its_facts_at_either_end(client: httpx.Client) -> None:
    facts = [["a", "p", "b"], ["b", "q", "c"], ["c", "p", "b"], ["b", "p", "b"], ["x", "p", "y"]]
    client.post("/kbs", json={"name": "around", "facts": facts}).raise_for_status()
    around = client.get("/kbs/around/neighbourhood", params={"entity": "b"}).json()
    found = sorted([f["subject"], f["predicate"], f["object"]] for f in around["items"])
    assert found == sorted(facts[:4])
    assert not around["truncated"]
    cut = client.get("/kbs/around/neighbourhood", params={"entity": "b", "limit": 2}).json()
    assert (len(cut["items"]), cut["truncated"]) == (2, True)
    missing = client.get("/kbs/around/neighbourhood", params={"entity": "z"})
    assert (missing.status_code, missing.json()["code"]) == (404, "entity_not_found")


@pytest.mark.parametrize("fields", [["valid"], ["file", "train"], ["file", "test"], []])
def test_files_that_are_no_whole_kb_are_refused(client: httpx.Client, fields: list[str]) -> None:
    files = {field: (f"{field}.tsv", b"a\tp\tb\n") for field in fields}
    answer = client.post("/kbs", data={"name": "pieces"}, files=files or {"kind": (None, b"facts")})
    assert (answer.status_code, answer.json()["code"]) == (422, "missing_file")


@pytest.mark.parametrize("field", ["file", "train"])
def test_a_file_that_comes_twice_is_refused_and_none_of_it_is_lost(client: httpx.Client, field: str) -> None:
    files = [(field, ("1.tsv", b"a\tp\tb\n")), (field, ("2.tsv", b"c\tp\td\n"))]
    answer = client.post("/kbs", data={"name": "two-files"}, files=files)
    assert (answer.status_code, answer.json()["code"]) == (422, "repeated_field")
    assert client.get("/kbs/two-files").status_code == 404


@pytest.mark.parametrize("kb", ["family", "split-graphs"])
def test_a_split_that_a_kb_does_not_have_is_not_exported(client: httpx.Client, kb: str) -> None:
    upload(client, "split-graphs", CLUTRR, "1.2_train.csv")
    answer = client.get(f"/kbs/{kb}/export", params={"split": "valid"})
    assert (answer.status_code, answer.json()["code"]) == (404, "split_not_found")
    assert "train" in answer.json()["detail"]


def test_entities_are_found_by_prefix_in_any_script(client: httpx.Client) -> None:
    names = ["ab", "abc", "b", "é1", "é2", "\U0010ffffx", "%_"]
    client.post("/kbs", json={"name": "prefixes", "facts": [[n, "p", n] for n in names]}).raise_for_status()
    for prefix in ("ab", "é", "\U0010ffff", "%", "zz"):
        items = client.get("/kbs/prefixes/entities", params={"prefix": prefix, "limit": 100}).json()["items"]
        assert [item["name"] for item in items] == sorted(n for n in names if n.startswith(prefix))


@pytest.fixture
def database(either_database: Database) -> Database:
    return either_database


def chain(length: int) -> BuiltKB:
    return built((f"e{i}", f"p{i % 3}", f"e{i + 1}") for i in range(length))


def test_a_load_is_invisible_until_it_is_finished_and_swept_when_given_up(database: Database) -> None:
    with service.begin_load(database, files_of(database), "t", "half", chain(9000)), database.read() as session:
        assert repository.find(session, "t", "half") is None
        assert repository.listing(session, "t", 0, 10) == []
    assert store.sweep(database) == 1
    with database.engine.connect() as connection:
        for table in ("kbs", "kb_revisions", "kb_segments"):
            assert connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() == 0
    kb, created = service.create(database, files_of(database), "t", "half", chain(9000))
    assert created
    with database.read() as session:
        loaded = KbRows.of(session, kb).read(files_of(database))
    assert np.array_equal(loaded.splits["train"], chain(9000).kb.splits["train"])


def test_what_is_stored_is_found_again_by_every_filter_and_exported_unchanged(database: Database) -> None:
    rng = np.random.default_rng(1)
    names = ["ab", "abc", "b", "é1", "é2", "\U0010ffffx", "%_", "a'\"\\b", *(f"e{i}" for i in range(200))]
    ids = np.unique(rng.integers(0, [len(names), 7, len(names)], size=(20_000, 3)), axis=0)
    rng.shuffle(ids)
    every = [Fact(names[s], f"p{p}", names[o]) for s, p, o in ids.tolist()]
    kb, _ = service.create(database, files_of(database), "t", "all", built(every))
    chosen = every[777]
    rows = service.rows_of(database, "t", kb.id)
    stored = rows.open(files_of(database))
    for mask in range(8):
        pattern = tuple(name if mask >> place & 1 else None for place, name in enumerate(chosen))
        found = service.facts(stored, pattern, None, len(every) + 1)
        expected = [f for f in every if all(p is None or p == name for p, name in zip(pattern, f, strict=True))]
        assert sorted(one.fact for one in found) == sorted(expected), pattern
        pages = service.facts(stored, pattern, None, 7)
        while len(more := service.facts(stored, pattern, pages[-1].key, 7)) > 0 and len(pages) < 70:
            pages += more
        assert pages == found[: len(pages)], pattern
    for prefix in ("ab", "é", "\U0010ffff", "%", "a'", "zz"):
        symbols = service.entities(stored, prefix, "", 1000)
        assert [symbol.name for symbol in symbols] == sorted(name for name in names if name.startswith(prefix))
    lines = b"".join(service.export(database, files_of(database), rows, "jsonl", None)).decode().splitlines()
    assert [Fact(**json.loads(line)) for line in lines] == every
    service.delete(database, "t", "all")
    assert store.sweep(database) == 1


def test_an_export_whose_kb_is_swept_away_meanwhile_is_whole(database: Database) -> None:
    files = files_of(database)
    service.create(database, files, "t", "leaving", chain(PIECE_FACTS + 1))
    pieces = service.export(database, files, service.rows_of(database, "t", "leaving"), "tsv", None)
    first = next(pieces)
    service.delete(database, "t", "leaving")
    store.sweep(database)
    with database.write() as session:
        for removal in removals.due(session, 10):
            files.storage.delete(removal.owner)
    assert len((first + b"".join(pieces)).splitlines()) == PIECE_FACTS + 1


def test_a_load_that_was_given_up_meanwhile_cannot_be_finished(database: Database) -> None:
    with service.begin_load(database, files_of(database), "t", "late", chain(10)) as load:
        with database.write() as session:
            repository.give_up(session, load.kb)
        with pytest.raises(Conflict) as caught, database.write() as session:
            load.finish(session)
    assert caught.value.code == "load_given_up"
    assert store.sweep(database) == 1


def test_a_load_whose_process_died_gives_its_name_back(database: Database) -> None:
    service.begin_load(database, files_of(database), "t", "dead", chain(10))
    with database.write() as session:
        session.connection().exec_driver_sql("UPDATE kbs SET loading_until = 0")
    _, created = service.create(database, files_of(database), "t", "dead", chain(20))
    assert created
    assert store.sweep(database) == 1


def test_a_million_facts_load_in_time_and_nobody_waits_for_them(tmp_path: Path) -> None:
    """CPU seconds where work is bounded, generous seconds where somebody waits. `-s` shows the figures, and
    docs/results/serving.md has those of a quiet machine."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, [200_000, 50, 200_000], size=(1_000_000, 3))
    content = "".join(f"entity_{s:06d}\tpredicate_{p:02d}\tentity_{o:06d}\n" for s, p, o in ids.tolist()).encode()
    with Cluster(tmp_path, {"log_level": "WARNING", "reconcile_seconds": "1"}) as cluster, ExitStack() as stack:
        cluster.start("api", "dispatch")
        client = stack.enter_context(httpx.Client(base_url=cluster.url(), timeout=240))
        with Waits(cluster) as waits:
            began = cpu_seconds(waits.api)
            kb = upload(client, "million", content, "m.tsv").json()
            seconds = cpu_seconds(waits.api) - began
        print(f"upload {seconds:.1f} CPU s, {waits.memory / 1e6:.0f} MB over idle, {waits.longest}")
        assert kb["num_facts"] == len(np.unique(ids, axis=0))
        assert kb["num_entities"] == len(np.unique(ids[:, [0, 2]]))
        assert seconds < 20
        assert waits.memory < 500e6
        assert max(waits.longest.values()) < 3
        check_filters(client, ids, waits.api)
        check_export_is_whole(cluster, client, kb["num_facts"])


class Waits:
    """How much the API works while a GET and a heartbeat's transaction wait for it, in CPU seconds, which do not grow
    when the machine is busy; and how much memory it takes."""

    def __init__(self, cluster: Cluster) -> None:
        api = cluster.parts["api"].process
        assert api is not None
        self.url, self.api, self.database = cluster.url(), api.pid, cluster.database()
        self.longest = {"get": 0.0, "write": 0.0}
        self.memory, self.idle = 0.0, resident(self.api)
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._watch, args=item) for item in self._calls().items()]

    def _calls(self) -> dict[str, Callable[[], None]]:
        def get() -> None:
            httpx.get(f"{self.url}/kbs/family", timeout=60).raise_for_status()

        def write() -> None:
            with self.database.write() as session:
                leadership.take(session, "test", "test", 30)

        return {"get": get, "write": write}

    def _watch(self, name: str, call: Callable[[], None]) -> None:
        while not self._stop.wait(0.1):
            began = cpu_seconds(self.api)
            call()
            self.longest[name] = max(self.longest[name], cpu_seconds(self.api) - began)
            self.memory = max(self.memory, resident(self.api) - self.idle)

    def __enter__(self) -> "Waits":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self.database.dispose()


def check_filters(client: httpx.Client, ids: Any, api: int) -> None:
    """Every filter finds as many as a scan does, with little work also for the largest pages."""
    chosen = ids[12_345]
    names = [f"entity_{chosen[0]:06d}", f"predicate_{chosen[1]:02d}", f"entity_{chosen[2]:06d}"]
    for mask in range(8):
        given = [place for place in range(3) if mask >> place & 1]
        params = {("subject", "predicate", "object")[place]: names[place] for place in given}
        expected = int(np.all(ids[:, given] == chosen[given], axis=1).sum())
        began = cpu_seconds(api)
        for _ in range(10):
            answer = client.get("/kbs/million/facts", params={**params, "limit": 1000})
            assert len(answer.json()["items"]) == min(expected, 1000)
        seconds = (cpu_seconds(api) - began) / 10
        print(f"filter {sorted(params)}: {1000 * seconds:.0f} CPU ms for {expected}")
        assert seconds < 0.1


def check_export_is_whole(cluster: Cluster, client: httpx.Client, num_facts: int) -> None:
    """A KB that is deleted and swept, with its files, while it is downloaded is sent to its end: never a short file."""
    with httpx.stream("GET", f"{cluster.url()}/kbs/million/export", timeout=240) as response:
        assert response.status_code == 200
        pieces = response.iter_raw()
        first = next(pieces)
        client.delete("/kbs/million").raise_for_status()
        assert client.get("/kbs/million").status_code == 404
        with sqlite3.connect(cluster.folder / "ctp.db", timeout=30) as connection:
            left = "SELECT 1 FROM kbs WHERE status = 'deleted' UNION SELECT 1 FROM removals"
            wait_for(lambda: not connection.execute(left).fetchone(), "swept")
        connection.close()
        assert first.count(b"\n") + sum(piece.count(b"\n") for piece in pieces) == num_facts


def cpu_seconds(process: int) -> float:
    """Of all its threads, in hundredths."""
    words = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def resident(process: int) -> float:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_an_upload_whose_api_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    with Cluster(tmp_path, {"reconcile_seconds": "1"}) as cluster:
        cluster.start("api", "dispatch")
        content = "".join(f"e{i}\tp\te{i + 1}\n" for i in range(300_000)).encode()

        def send() -> None:
            with pytest.raises(httpx.HTTPError):
                upload(httpx.Client(base_url=cluster.url(), timeout=120), "cut", content, "x.tsv")

        sender = threading.Thread(target=send)
        sender.start()
        with sqlite3.connect(tmp_path / "ctp.db", timeout=30) as connection:
            while not connection.execute("SELECT 1 FROM kbs WHERE name = 'cut' AND status = 'loading'").fetchone():
                time.sleep(0.01)
        cluster.parts["api"].kill()
        sender.join()
        deadline = time.monotonic() + repository.LOAD_SECONDS + 120
        with sqlite3.connect(tmp_path / "ctp.db", timeout=30) as connection:
            while connection.execute("SELECT 1 FROM kbs WHERE status != 'ready'").fetchone():
                assert time.monotonic() < deadline, "what was half loaded is still there"
                time.sleep(0.2)
            orphans = "SELECT 1 FROM kb_segments WHERE kb NOT IN (SELECT number FROM kbs)"
            assert not connection.execute(orphans).fetchone()
            kept = {kb for (kb,) in connection.execute("SELECT id FROM kbs")}
        stored = tmp_path / "artifacts" / "kbs"
        wait_for(lambda: {folder.name for folder in stored.iterdir()} == kept, "its files are gone", 60)
        connection.close()
