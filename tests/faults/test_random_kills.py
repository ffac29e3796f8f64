"""Kill -9 at random moments, over all parts: nothing that was accepted is lost, nothing is made twice."""

import random
import time
from pathlib import Path

import pytest

from service.local.cluster import Cluster
from tests.faults.watching import FAST, JOB, Watch, undisturbed

pytestmark = pytest.mark.slow
PARTS = ("api", "dispatch", "train", "train-2")


def kill_at_random(folder: Path, kills: int, jobs: int, seed: int) -> list[str]:
    """How the jobs ended; the limit of attempts is not under test here."""
    with Cluster(folder, FAST | {"max_attempts": "100"}) as cluster:
        cluster.start(*PARTS)
        watch, dice = Watch(cluster), random.Random(seed)
        accepted = [watch.submit(JOB)["id"] for _ in range(jobs)]
        for _ in range(kills):
            time.sleep(dice.uniform(0.2, 3.0))  # a kill at any moment is what is being tested
            name = dice.choice(PARTS)
            cluster.parts[name].kill()
            cluster.start(name)
        ended = watch.wait_for_end(*accepted, seconds=600)
        for job in ended:
            assert watch.files(job.model_id) == undisturbed(job)
        watch.check_nothing_is_lost()
        return [job.status for job in ended]


@pytest.mark.timeout(900)
def test_a_few_random_kills(tmp_path: Path) -> None:
    assert kill_at_random(tmp_path, kills=5, jobs=3, seed=0) == ["succeeded"] * 3


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(3))
def test_twenty_random_kills_with_ten_jobs(tmp_path: Path, seed: int) -> None:
    assert kill_at_random(tmp_path, kills=20, jobs=10, seed=seed) == ["succeeded"] * 10
