"""A cluster of processes that each fault test may hurt."""

from collections.abc import Iterator

import pytest

from service.local.cluster import Cluster
from tests.faults.watching import FAST, Watch


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    """API, dispatcher and one train worker; a test leaves them running, and adds what it needs."""
    with Cluster(tmp_path_factory.mktemp("f"), FAST) as cluster:
        cluster.start("api", "dispatch", "train")
        yield Watch(cluster)


@pytest.fixture(autouse=True)
def nothing_is_lost(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each fault."""
    yield
    if "watch" in request.fixturenames:
        request.getfixturevalue("watch").check_nothing_is_lost()
