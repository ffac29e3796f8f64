"""Fixtures for all tests, and the list of what could not be run here."""

import os
import shutil
from collections.abc import Callable, Iterator

import httpx
import pytest
from hypothesis import HealthCheck, settings

from tests.running import RunningService, running_service

# The same examples every time, and no verdict on how fast the machine is.
settings.register_profile("ctp", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ctp")
NOT_RUN = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One started service for all tests that only add to it."""
    with running_service(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="session")
def client(service: RunningService) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client


@pytest.fixture
def needs(request: pytest.FixtureRequest) -> Callable[[str, bool], str]:
    """`needs("strace")`: the path of a program, or the end of the test, listed as not run. In CI that is a failure.

    `needs("tmpfs", False)` says the same of anything else that cannot be had.
    """

    def demand(what: str, available: bool | None = None) -> str:
        path = shutil.which(what) if available is None else what
        if path and available is not False:
            return path
        reason = f"{request.node.nodeid}: {what} cannot be had here (`make system-deps` installs programs)"
        if os.environ.get("CI") == "true":
            pytest.fail(f"not run: {reason}")
        request.config.stash.setdefault(NOT_RUN, []).append(reason)
        pytest.skip(reason)

    return demand


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for reason in config.stash.get(NOT_RUN, []):
        terminalreporter.write_line(f"not run: {reason}", yellow=True)
