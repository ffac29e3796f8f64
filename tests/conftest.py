"""Fixtures for all tests, and the list of what could not be run here."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, settings

from tests.running import RunningService, running_service

# The same examples every time, and no verdict on how fast the machine is.
settings.register_profile("ctp", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ctp")
# What a shell starts in the background ignores Ctrl-C, and so does all that it starts; some tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Threads of linear algebra that spin beside two test processes on two cores double the time of both; read when numpy is
# loaded, so for the processes that are started after this.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
HERE = Path(__file__).parent
NOT_RUN = "not run"
# Of several processes, none shall be left alone at the end with what takes longest.
LONGEST_FIRST = ("faults/", "e2e/", "service/", "core/test_odd_kbs.py", "core/test_forecasts.py", "core/benchmarks/")


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
        request.node.user_properties.append((NOT_RUN, reason))
        pytest.skip(reason)

    return demand


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        path = item.path.relative_to(HERE).as_posix()
        begins = (number for number, first in enumerate(LONGEST_FIRST) if path.startswith(first))
        return next(begins, len(LONGEST_FIRST))

    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=place)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.stats.get("skipped", []):
        for name, reason in report.user_properties:
            if name == NOT_RUN:
                terminalreporter.write_line(f"{NOT_RUN}: {reason}", yellow=True)
