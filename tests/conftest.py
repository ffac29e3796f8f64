"""Fixtures for all tests."""

from collections.abc import Iterator

import httpx
import pytest

from tests.running import RunningService, running_service


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One started service for all tests that only add to it."""
    with running_service(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="session")
def client(service: RunningService) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client
