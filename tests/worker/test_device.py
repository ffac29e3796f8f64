"""Processes that share a machine share its cores."""

import os
import subprocess
import sys

import pytest

CODE = "import torch; from worker.device import limit_threads; limit_threads({}); print(torch.get_num_threads())"


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "threads"), [(0, max(1, (os.cpu_count() or 2) // 2)), (1, 1), (2, 2)])
def test_a_worker_takes_the_threads_of_its_setting_or_half_of_the_cores(asked: int, threads: int) -> None:
    command = [sys.executable, "-c", CODE.format(asked)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == str(threads)
