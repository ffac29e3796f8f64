"""The child that trains, and what its worker does about its end."""

import os
import signal
from pathlib import Path

import pytest

from service.local.cluster import Cluster, wait_for
from service.settings import Settings
from worker.nursery import Nursery

pytestmark = pytest.mark.slow


def test_a_child_is_reused_and_replaced_when_it_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(tmp_path) as cluster:
        for key, value in cluster.variables("train").items():
            monkeypatch.setenv(key, value)
        nursery = Nursery(Settings())
        nursery.run("job_that_is_not_there")
        child = nursery.prepare()
        assert child is not None
        nursery.run("job_that_is_not_there")
        assert nursery.prepare() is child
        os.kill(child.process.pid, signal.SIGKILL)
        wait_for(lambda: not child.alive, "the child is gone")
        child.close()
        nursery.run("job_that_is_not_there")
        second = nursery.prepare()
        assert second is not None
        assert second is not child
        nursery.close()
        assert second.close() == 0
        assert nursery.prepare() is None
