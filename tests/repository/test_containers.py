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


@pytest.mark.parametrize("name", services())
def test_no_container_grows_without_a_limit(name: str) -> None:
    service = services()[name]
    assert "mem_limit" in service
    assert service["logging"]["options"]["max-size"] == "10m"  # type: ignore[index]
    assert all("size=" in mount for mount in service.get("tmpfs", []))  # type: ignore[attr-defined]


def test_the_service_does_not_use_the_root_of_the_object_store() -> None:
    root = services()["s3"]["environment"]["MINIO_ROOT_PASSWORD"]  # type: ignore[index]
    assert root not in services()["api"]["environment"].values()  # type: ignore[attr-defined]


def test_a_change_of_the_sources_does_not_install_torch_again() -> None:
    steps = (ROOT / "docker/Dockerfile").read_text().splitlines()
    first_source = steps.index("COPY ctp_client ctp_client")
    installs = [place for place, step in enumerate(steps) if "pip install" in step and place > first_source]
    assert installs
    assert all("--no-deps" in steps[place] for place in installs)


@pytest.mark.parametrize(
    "name", ["postgres", "redis", "s3", "api", "dispatch", "worker-train", "worker-query", "worker-batch"]
)
def test_every_part_that_stays_has_a_health_check(name: str) -> None:
    assert "test" in services()[name]["healthcheck"]  # type: ignore[operator]


def test_the_database_is_waited_for_where_a_temporary_server_does_not_answer() -> None:
    test = services()["postgres"]["healthcheck"]["test"]  # type: ignore[index]
    assert test[test.index("--host") :][:2] == ["--host", "127.0.0.1"]
    assert services()["migrate"]["command"] == ["migrate", "--wait", "60"]


def test_workers_can_be_scaled() -> None:
    """A fixed name or a fixed port would allow one of them only."""
    for name in ("worker-train", "worker-query", "worker-batch", "dispatch"):
        assert not {"container_name", "ports"} & set(services()[name])


def test_every_command_of_the_containers_is_one_of_ctp() -> None:
    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    ours = [service for service in services().values() if service["image"] == "ctp:0.2.0"]
    assert ours
    assert {service["command"][0] for service in ours} | {"alive"} <= known  # type: ignore[index]
