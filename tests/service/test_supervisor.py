"""`ctp up` as a process: it keeps its parts running and leaves nothing behind."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from service.local import supervisor
from service.local.cluster import free_port
from service.local.postgres import postgres
from service.local.supervisor import Supervisor, cap
from service.settings import Settings, UserError, get_settings
from tests.running import RunningService, running_service

pytestmark = pytest.mark.slow


def descendants(root: int) -> set[int]:
    """All processes below a process, as /proc has them now."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except FileNotFoundError:
                continue
    found, frontier = set(), {root}
    while frontier:
        frontier = {child for child, parent in parents.items() if parent in frontier}
        found |= frontier
    return found


def alive(processes: set[int]) -> set[int]:
    def runs(number: int) -> bool:
        try:
            return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    return {number for number in processes if runs(number)}


def eventually(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def test_a_free_port_is_given_once_and_can_be_listened_on() -> None:
    ports = [free_port() for _ in range(300)]
    assert len(set(ports)) == len(ports)
    with ExitStack() as held:
        found = {held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(300)}
        assert not found & set(ports), "nobody gets it by chance"
    for port in ports[:10]:
        socket.create_server(("127.0.0.1", port)).close()


def up(folder: Path, port: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "service.cli", "up", "--port", str(port)]
    environment = os.environ | {"CTP_DATA_DIR": str(folder)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_ctrl_c_stops_everything_within_ten_seconds(tmp_path: Path) -> None:
    with running_service(tmp_path) as service:
        processes = descendants(service.process.pid)
        assert len(processes) >= 5
        began = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - began < 10
        assert not alive(processes)


def test_a_killed_supervisor_takes_its_parts_with_it(tmp_path: Path) -> None:
    with running_service(tmp_path) as service:
        processes = descendants(service.process.pid)
        service.process.kill()
        service.process.wait()
        assert eventually(lambda: not alive(processes), 60), alive(processes)


def ready(service: RunningService) -> bool:
    try:
        return httpx.get(f"{service.url}/readyz", timeout=30).status_code == 200
    except httpx.HTTPError:
        return False


def test_a_part_that_dies_is_started_again(tmp_path: Path) -> None:
    with running_service(tmp_path) as service:
        before = service.children()
        assert set(before) == {"api", "train", "query", "batch", "dispatch", "queue"}
        for number in before.values():
            os.kill(number, signal.SIGKILL)
        assert eventually(lambda: set(service.children()) == set(before) and ready(service), 200)
        assert not set(service.children().values()) & set(before.values())


def test_a_taken_port_is_one_clear_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = up(tmp_path, port)
    assert result.returncode == 1
    assert len(result.stdout.strip().splitlines()) == 1, result.stdout
    assert f"port {port}" in result.stdout
    assert "Address already in use" in result.stdout


def test_two_services_cannot_share_a_data_folder(service: RunningService) -> None:
    result = up(service.folder, free_port())
    assert result.returncode == 1
    assert "another `ctp up` uses" in result.stdout


def test_a_second_start_keeps_what_was_there(tmp_path: Path) -> None:
    for _ in range(2):
        with running_service(tmp_path) as service, service.client() as client:
            kb = client.post("/kbs", json={"name": "kept", "facts": [["a", "p", "b"]]})
    assert kb.status_code == 200


def test_a_damaged_queue_is_laid_aside_and_the_service_starts(tmp_path: Path) -> None:
    files = tmp_path / "queue" / "appendonlydir"
    files.mkdir(parents=True)
    (files / "appendonly.aof.manifest").write_text("file appendonly.aof.1.incr.aof seq 1 type i\n")
    (files / "appendonly.aof.1.incr.aof").write_text("*1\r\n$4\r\nPING\r\nno command at all\r\n")
    with running_service(tmp_path) as service:
        assert "it starts empty" in service.printed
        assert ready(service)
    assert (tmp_path / "queue" / "damaged" / "appendonly.aof.1.incr.aof").exists()


def test_a_port_that_is_any_port_is_one_clear_line(tmp_path: Path) -> None:
    result = up(tmp_path, 0)
    assert (result.returncode, result.stdout.strip()) == (
        1,
        "ctp: port 0 would be any free port, unknown to callers: choose one, e.g. PORT=8000",
    )


@pytest.mark.parametrize("url", ["postgresql+psycopg://ann:secret@127.0.0.1:1/none", "no-url-at-all"])
@pytest.mark.parametrize("words", [["up"], ["migrate"], ["keys", "list"], ["gc"]])
def test_a_database_that_cannot_be_used_is_one_clear_line(tmp_path: Path, words: list[str], url: str) -> None:
    settings = {"CTP_DATA_DIR": str(tmp_path), "CTP_DATABASE_URL": url, "CTP_PORT": str(free_port())}
    command = [sys.executable, "-m", "service.cli", *words]
    environment = os.environ | settings
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    (said,) = [line for line in (result.stdout + result.stderr).splitlines() if line.startswith("ctp: ")]
    assert result.returncode == 1
    assert "Traceback" not in result.stdout + result.stderr
    assert "check CTP_DATABASE_URL" in said
    assert "secret" not in result.stdout + result.stderr


def test_migrating_waits_for_a_database_that_does_not_answer_yet(tmp_path: Path) -> None:
    with postgres() as server:
        server.stop()
        environment = os.environ | {"CTP_DATA_DIR": str(tmp_path), "CTP_DATABASE_URL": server.url}
        command = [sys.executable, "-m", "service.cli", "migrate", "--wait", "120"]
        process = subprocess.Popen(command, env=environment)
        time.sleep(3)  # so that it has met the database that is not there
        server.start()
        assert process.wait(200) == 0


@pytest.mark.parametrize("words", [["api"], ["dispatch"]])
def test_a_part_without_a_queue_is_one_clear_line(tmp_path: Path, words: list[str]) -> None:
    environment = os.environ | {"CTP_DATA_DIR": str(tmp_path), "CTP_REDIS_URL": ""}
    command = [sys.executable, "-m", "service.cli", *words]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("ctp: CTP_REDIS_URL is not set")
    assert len(result.stderr.splitlines()) == 1


def test_a_setting_that_is_no_number_is_one_clear_line(tmp_path: Path) -> None:
    environment = os.environ | {"CTP_DATA_DIR": str(tmp_path), "CTP_LEASE_SECONDS": "soon"}
    command = [sys.executable, "-m", "service.cli", "up"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("ctp: CTP_LEASE_SECONDS='soon' cannot be used (")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("CTP_LOG_LEVEL", "trace", "Input should be 'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
        ("CTP_HEARTBEAT_SECONDS", "30", "CTP_HEARTBEAT_SECONDS must be less than CTP_LEASE_SECONDS"),
        ("CTP_MAX_NAME_LENGTH", "513", "less than or equal to 512"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, reason: str
) -> None:
    monkeypatch.setenv(name, value)
    get_settings.cache_clear()
    with pytest.raises(UserError, match=re.escape(reason)):
        get_settings()


def test_a_long_folder_puts_the_socket_elsewhere_and_leaves_nothing_there(tmp_path: Path) -> None:
    folder, sockets = tmp_path / ("long" * 30), tmp_path / "t"
    sockets.mkdir()
    with running_service(folder, environment={"TMPDIR": str(sockets)}) as service:
        assert ready(service)
        assert list(sockets.glob("ctp-*/queue.sock"))
        assert service.stop() == 0
    assert not list(sockets.glob("ctp-*"))


def test_with_keys_the_printed_commands_send_one(tmp_path: Path) -> None:
    environment = os.environ | {"CTP_DATA_DIR": str(tmp_path)}
    create = [sys.executable, "-m", "service.cli", "keys", "create"]
    key = subprocess.run(create, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    with running_service(tmp_path) as service:
        commands = re.findall(r"^  (curl .*?\\\n.*?)$", service.printed, re.MULTILINE)
        assert len(commands) == 2
        for command in commands:
            shell = ["bash", "-c", command]
            done = subprocess.run(shell, env=os.environ | {"CTP_KEY": key}, capture_output=True, text=True, check=True)
            assert "code" not in json.loads(done.stdout), done.stdout


def test_a_data_folder_with_brackets_in_its_name_is_told_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "[bold][" / "x]"
    answer = up(folder, free_port())
    assert (answer.returncode, answer.stderr) == (1, "")
    assert f"the data folder {folder} cannot be used (Not a directory)" in answer.stdout
    Supervisor(Settings(data_dir=folder))._say(f"data in {folder}")
    assert capsys.readouterr().out == f"data in {folder}\n"


def test_nobody_else_looks_into_a_new_data_folder(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o755)
    for folder, mode in ((tmp_path / "a" / "new", 0o700), (kept, 0o755)):
        Supervisor(Settings(data_dir=folder))._lock().close()
        assert folder.stat().st_mode & 0o777 == mode
    for words in (["keys", "list"], ["migrate"]):
        folder = tmp_path / words[0]
        command, environment = [sys.executable, "-m", "service.cli", *words], os.environ | {"CTP_DATA_DIR": str(folder)}
        subprocess.run(command, env=environment, capture_output=True, check=True)
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_log_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "MAX_LOG_BYTES", 10)
    log = tmp_path / "api.log"
    with log.open("ab", buffering=0) as writer:
        for text in (b"short", b"er than it was", b"new"):
            writer.write(text)
            cap(log)
        writer.write(b"er")
    assert log.read_bytes() == b"newer"
    assert (tmp_path / "api.log.1").read_bytes() == b"shorter than it was"
    cap(tmp_path / "none.log")
