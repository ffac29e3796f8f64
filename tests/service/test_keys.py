"""Keys, tenants and the gate, against services that were started with and without keys."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.datastructures import Headers
from starlette.routing import Mount

from service.app import create_app
from service.db.engine import Database
from service.db.migrate import migrate
from service.errors import Forbidden, Invalid, NotFound
from service.keys import service as keys
from service.keys.gate import _check_local
from service.keys.roles import Role, required_role
from service.keys.tokens import Token
from service.local.cluster import Cluster, free_port
from service.settings import Settings
from tests.running import RunningService, running_service


def test_a_key_has_a_secret_of_at_least_128_bits_and_is_stored_as_a_hash_only(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/a.db")
    migrate(database.engine)
    token = keys.create(database, "acme", "read", "")
    assert len(token.secret) * 6 >= 128
    assert token.secret.encode() not in (tmp_path / "a.db").read_bytes()
    database.dispose()


def test_a_role_or_a_key_that_is_not_there_is_told(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/a.db")
    migrate(database.engine)
    with pytest.raises(Invalid, match="read, write, admin") as role:
        keys.create(database, "acme", "owner", "")
    with pytest.raises(NotFound, match="ctp keys list") as key:
        keys.revoke(database, "0123456789ab")
    assert (role.value.code, key.value.code) == ("bad_role", "key_not_found")
    database.dispose()


def test_a_key_opens_only_with_its_whole_secret() -> None:
    token = Token.new()
    assert Token.parse(str(token)) == token
    assert token.opens(token.digest)
    assert not Token(token.prefix, token.secret[:-1]).opens(token.digest)


@pytest.mark.parametrize(
    "text", ["", "ctp", "ctp__", "ctp_abc_secret", "sk_0123456789ab_secret", "ctp_0123456789ab_" + "x" * 500]
)
def test_what_is_no_key_is_not_looked_up(text: str) -> None:
    assert Token.parse(text) is None


@pytest.mark.parametrize(
    ("method", "path", "role"),
    [
        ("GET", "/healthz", None),
        ("POST", "/healthz", Role.write),
        ("GET", "/kbs", Role.read),
        ("POST", "/query", Role.read),
        ("POST", "/models/family@1/warm", Role.read),
        ("POST", "/models/a/b/warm", Role.write),
        ("PUT", "/models/family/warm", Role.write),
        ("POST", "/kbs", Role.write),
        ("DELETE", "/kbs/x", Role.write),
        ("GET", "/metrics", Role.metrics),
        ("GET", "/a/route/that/nobody/thought/of", Role.read),
        ("GET", "/healthz/../kbs", Role.read),
        ("GET", "//healthz", Role.read),
    ],
)
def test_each_call_needs_its_role(method: str, path: str, role: Role | None) -> None:
    assert required_role(method, path) is role


@dataclass
class Tenants:
    """A service with keys, and a client for each key."""

    running: RunningService
    token: str
    nobody: httpx.Client
    alice: httpx.Client
    bob: httpx.Client
    reader: httpx.Client
    admin: httpx.Client


def make_key(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "service.cli", "keys", "create", *options]
    environment = {"CTP_DATA_DIR": str(folder)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    folder = tmp_path_factory.mktemp("keys")
    tokens = [
        make_key(folder, "--tenant", "alice"),
        make_key(folder, "--tenant", "bob"),
        make_key(folder, "--tenant", "alice", "--role", "read"),
        make_key(folder, "--tenant", "ops", "--role", "admin"),
    ]
    with running_service(folder, host="0.0.0.0") as running, ExitStack() as stack:

        def client(token: str | None) -> httpx.Client:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return stack.enter_context(httpx.Client(base_url=running.url, headers=headers, timeout=240))

        yield Tenants(running, tokens[0], client(None), *map(client, tokens))


def routes() -> list[tuple[str, str]]:
    app = create_app(Settings(redis_url="redis://127.0.0.1:1/0", database_url="sqlite://"))
    found = list(walk(app.routes))
    assert ("POST", "/query") in found
    return found


def walk(routes: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """(method, path) of every route, also of those that the OpenAPI page does not show."""
    for route in routes:
        if hasattr(route, "original_router"):
            yield from walk(route.original_router.routes)
        elif isinstance(route, Mount):
            yield "GET", f"{route.path}/x"
        else:
            yield from ((method, route.path) for method in route.methods - {"HEAD"})


def head_only(url: str, method: str, path: str) -> tuple[int, Message, Any]:
    """Asks with a body that never comes: the answer must not wait for it."""
    with closing(HTTPConnection(url.removeprefix("http://"), timeout=30)) as connection:
        connection.putrequest(method, path)
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", "1000000")
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.headers, json.loads(answer.read())


@pytest.mark.slow
def test_no_route_answers_without_a_key(tenants: Tenants) -> None:
    assert "with keys only" in tenants.running.printed
    public = set()
    for method, path in routes():
        if required_role(method, path) is None:
            public.add(path)
            continue
        status, headers, body = head_only(tenants.running.url, method, path.replace("{", "").replace("}", ""))
        assert (status, body["code"]) == (401, "key_missing"), (method, path)
        assert headers["www-authenticate"] == "Bearer"
    assert public <= {"/", "/healthz", "/readyz", "/docs", "/openapi.json", "/favicon.ico", "/static/x"}


@pytest.mark.slow
def test_health_needs_no_key(tenants: Tenants) -> None:
    assert [tenants.nobody.get(path).status_code for path in ("/healthz", "/readyz")] == [200, 200]


@pytest.mark.slow
@pytest.mark.parametrize("header", ["Bearer ctp_0123456789ab_wrong", "Bearer x", "Basic YTpi", "ctp_x", "Bearer \xff"])
def test_a_wrong_key_is_refused(tenants: Tenants, header: str) -> None:
    answer = tenants.nobody.get("/kbs", headers={"Authorization": header.encode("latin-1")})
    assert (answer.status_code, answer.json()["code"]) == (401, "key_invalid")


@pytest.mark.slow
def test_a_role_goes_as_far_as_it_goes(tenants: Tenants) -> None:
    assert tenants.reader.get("/kbs").status_code == 200
    refused = tenants.reader.post("/kbs", json={"name": "x", "facts": [["a", "p", "b"]]})
    assert (refused.status_code, refused.json()["code"]) == (403, "role_too_low")
    question = {"model": "nowhere", "goal": {"subject": "a", "predicate": "p"}}
    assert tenants.reader.post("/query", json=question).status_code == 404
    assert tenants.alice.get("/metrics").status_code == 403
    assert tenants.admin.get("/metrics").status_code != 403


@pytest.mark.slow
def test_the_things_of_another_tenant_answer_like_things_that_never_were(tenants: Tenants) -> None:
    kb = tenants.alice.post("/kbs", json={"name": "secret", "facts": [["a", "p", "b"], ["b", "p", "c"]]}).json()
    trained = tenants.alice.post("/train?wait=200", json={"kb": "secret", "name": "secret"}).json()
    assert tenants.reader.get(f"/kbs/{kb['id']}").status_code == 200
    theirs = {"kb": kb["id"], "model": trained["model"]["id"], "job_id": trained["job"]["id"]}
    never = {"kb": "kb_0123456789abcdef", "model": "model_0123456789abcdef", "job_id": "job_0123456789abcdef"}
    bodies = {
        "/query": lambda ids: {"model": ids["model"], "goal": {"subject": "a", "predicate": "p"}},
        "/train": lambda ids: {"kb": ids["kb"], "name": "mine"},
    }

    def ask(method: str, path: str, ids: dict[str, str]) -> tuple[int, bytes]:
        for name, value in ids.items():
            path = path.replace(f"{{{name}}}", value)
        sent = bodies[path](ids) if path in bodies else {"version": 1}
        params = {"kb": ids["kb"], "ids": ids["model"], "entity": "a", "wait": 0}
        answer = tenants.bob.request(method, path, json=sent if method in ("POST", "PUT") else None, params=params)
        body = answer.content
        for value in ids.values():
            body = body.replace(value.encode(), b"ID")
        return answer.status_code, body

    walked = [(m, p) for m, p in routes() if "{" in p or p in bodies or p in ("/presets", "/models/compare")]
    for method, path in walked:
        found = ask(method, path, theirs)
        assert found == ask(method, path, never), (method, path)
        assert found[0] >= 400, (method, path)
    for listing in ("/kbs", "/models", "/jobs"):
        assert not [item for item in tenants.bob.get(listing).json()["items"] if not item.get("sample")]


def seconds_open(client: httpx.Client, headers: dict[str, str]) -> float:
    """How long calls are still let in, by when they were sent: how long an answer takes is the machine's affair."""
    began = sent = last = time.monotonic()
    while client.get("/kbs", headers=headers).status_code == 200 and sent - began < 30:
        last, sent = sent, time.monotonic()
    return last - began


@pytest.mark.slow
def test_a_revoked_key_is_refused_within_two_seconds(tenants: Tenants) -> None:
    token = make_key(tenants.running.folder, "--tenant", "alice")
    headers = {"Authorization": f"Bearer {token}"}
    assert tenants.nobody.get("/kbs", headers=headers).status_code == 200
    command = [sys.executable, "-m", "service.cli", "keys", "revoke", token]
    subprocess.run(command, env={"CTP_DATA_DIR": str(tenants.running.folder)}, check=True, capture_output=True)
    assert seconds_open(tenants.nobody, headers) <= 2
    listed = subprocess.run(
        [sys.executable, "-m", "service.cli", "keys", "list"],
        env={"CTP_DATA_DIR": str(tenants.running.folder)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert token.split("_")[1] in listed
    assert token.split("_", 2)[2] not in listed


@pytest.mark.slow
def test_without_keys_it_does_not_listen_to_other_machines(tmp_path: Path) -> None:
    port = str(free_port())
    environment = {"CTP_DATA_DIR": str(tmp_path), "CTP_HOST": "0.0.0.0", "CTP_PORT": port}
    up = [sys.executable, "-m", "service.cli", "up"]
    ended = subprocess.run(up, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "ctp keys create" in ended.stdout
    api = [sys.executable, "-m", "service.cli", "api"]
    environment["CTP_REDIS_URL"] = "redis://127.0.0.1:1/0"
    ended = subprocess.run(api, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "ctp keys create" in ended.stderr


@pytest.mark.slow
def test_on_loopback_it_runs_open_and_says_so(service: RunningService, client: httpx.Client) -> None:
    assert "open: everyone on this machine may do everything" in service.printed
    assert client.get("/kbs").status_code == 200


@pytest.mark.slow
def test_an_open_service_does_not_answer_pages_from_elsewhere(client: httpx.Client) -> None:
    rebound = client.get("/kbs", headers={"Host": "evil.example"})
    assert (rebound.status_code, rebound.json()["code"]) == (403, "foreign_host")
    files = {"file": ("a.tsv", b"a\tp\tb\n")}
    forged = client.post("/kbs", data={"name": "forged"}, files=files, headers={"Origin": "https://evil.example"})
    assert (forged.status_code, forged.json()["code"]) == (403, "foreign_origin")
    assert client.get("/kbs", headers={"Origin": str(client.base_url).rstrip("/")}).status_code == 200


def test_metrics_have_a_role_of_their_own_that_sees_nothing_else() -> None:
    allowed = {role: [needed for needed in Role if role.may(needed)] for role in Role}
    assert allowed == {
        Role.metrics: [Role.metrics],
        Role.read: [Role.read],
        Role.write: [Role.read, Role.write],
        Role.admin: list(Role),
    }


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"host": "127.0.0.1:8400"}, None),
        ({"host": "localhost"}, None),
        ({"host": "[::1]:8400", "sec-fetch-site": "same-origin"}, None),
        ({"host": "127.0.0.1", "sec-fetch-site": "none"}, None),
        ({"host": "127.0.0.1:8400@evil"}, "foreign_host"),
        ({"host": "127.0.0.1:8400:evil"}, "foreign_host"),
        ({"host": "127.0.0.1", "sec-fetch-site": "cross-site"}, "foreign_origin"),
        ({"host": "127.0.0.1", "sec-fetch-site": "same-site"}, "foreign_origin"),
    ],
)
def test_an_open_service_answers_this_machine_and_its_own_page_alone(headers: dict[str, str], code: str | None) -> None:
    with pytest.raises(Forbidden) if code else nullcontext() as caught:
        _check_local({"server": ("127.0.0.1", 8400)}, Headers(headers))
    assert code is None or (caught is not None and caught.value.code == code)


@pytest.mark.slow
def test_the_first_key_closes_an_open_service(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start("api")
        check_first_key(tmp_path, cluster.url())


def check_first_key(folder: Path, url: str) -> None:
    with httpx.Client(base_url=url, timeout=60) as client:
        assert client.get("/kbs").status_code == 200
        token = make_key(folder)
        assert seconds_open(client, {}) <= 2
        assert client.get("/kbs").status_code == 401
        assert client.get("/kbs", headers={"Authorization": f"Bearer {token}"}).status_code == 200
