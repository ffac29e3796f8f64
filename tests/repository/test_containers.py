"""The container files, as far as they can be checked without an engine."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from service.cli import app

ROOT = Path(__file__).parents[2]
COMPOSE = ["docker-compose.yml", "docker-compose.gpu.yml"]
PROGRAMS = Path(sys.executable).parent


def services() -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = YAML(typ="safe").load(ROOT / COMPOSE[0])["services"]
    return found


def test_compose_files_follow_the_specification() -> None:
    command = [PROGRAMS / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", *COMPOSE]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def test_the_image_file_has_no_known_faults() -> None:
    assert subprocess.run([PROGRAMS / "hadolint", "docker/Dockerfile"], cwd=ROOT, check=False).returncode == 0


def test_the_image_has_every_package() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    packages = {pattern.rstrip("*") for pattern in tool["setuptools"]["packages"]["find"]["include"]}
    copied = set(re.findall(r"^COPY (\w+) \1$", (ROOT / "docker/Dockerfile").read_text(), re.MULTILINE))
    assert copied == packages


@pytest.mark.parametrize("name", services())
def test_every_image_is_pinned_and_nothing_that_stays_runs_as_root(name: str) -> None:
    service = services()[name]
    tag = str(service["image"]).partition(":")[2]
    assert any(letter.isdigit() for letter in tag), f"{name} is not pinned"
    assert name == "s3-folder" or str(service["user"]) not in ("", "0", "root")


@pytest.mark.parametrize("name", ["postgres", "redis", "s3", "api", "dispatch", "worker-train", "worker-query"])
def test_every_part_that_stays_has_a_health_check(name: str) -> None:
    assert "test" in services()[name]["healthcheck"]  # type: ignore[operator]


def test_the_database_is_waited_for_where_a_temporary_server_does_not_answer() -> None:
    test = services()["postgres"]["healthcheck"]["test"]  # type: ignore[index]
    assert test[test.index("--host") :][:2] == ["--host", "127.0.0.1"]
    assert services()["migrate"]["command"] == ["migrate", "--wait", "60"]


def test_workers_can_be_scaled() -> None:
    """A fixed name or a fixed port would allow one of them only."""
    for name in ("worker-train", "worker-query", "dispatch"):
        assert not {"container_name", "ports"} & set(services()[name])


def test_every_command_of_the_containers_is_one_of_ctp() -> None:
    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    ours = [service for service in services().values() if service["image"] == "ctp:0.2.0"]
    assert ours
    assert {service["command"][0] for service in ours} | {"alive"} <= known  # type: ignore[index]
