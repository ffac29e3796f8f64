"""How much memory a training may take, and what is told of one that wants more."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from service.db.tables import Job
from service.training.capacity import out_of_memory
from worker import memory
from worker.speed import FASTEST, SLOWEST, measured_speed

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 8 GiB, of which 4 are available; the process is in no cgroup."""
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "cgroups")
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "meminfo").write_text("MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n")
    (tmp_path / "proc" / "vmstat").write_text("nr_free_pages 7\noom_kill 3\n")
    (tmp_path / "proc" / "self" / "cgroup").write_text("0::/\n")
    return tmp_path


def grouped(machine: Path, line: str, folder: str, **files: object) -> None:
    (machine / "proc" / "self" / "cgroup").write_text(f"1:cpu:/elsewhere\n{line}\n")
    (machine / "cgroups" / folder).mkdir(parents=True)
    for name, text in files.items():
        (machine / "cgroups" / folder / f"memory.{name}").write_text(f"{text}\n")


def test_the_free_memory_is_what_the_machine_has_available(machine: Path) -> None:
    assert memory.free_bytes() == 4 * GIB
    assert not memory.scarce()


def test_a_container_has_no_more_than_its_cgroup_leaves_and_caches_count_as_free(machine: Path) -> None:
    grouped(machine, "0::/app", "app", max=2 * GIB, current=GIB, stat=f"anon 5\ninactive_file {GIB // 2}")
    assert memory.free_bytes() == GIB + GIB // 2


def test_cgroups_of_the_first_version_are_read_too(machine: Path) -> None:
    files = {"limit_in_bytes": 3 * GIB, "usage_in_bytes": GIB, "stat": "total_inactive_file 0", "oom_control": ""}
    grouped(machine, "4:memory:/app", "memory/app", **files)
    assert memory.free_bytes() == 2 * GIB


def test_a_cgroup_without_a_limit_limits_nothing(machine: Path) -> None:
    grouped(machine, "0::/app/inner", "app", max="max", current=GIB)
    assert memory.free_bytes() == 4 * GIB


def test_the_larger_count_of_killed_processes_is_that_of_the_cgroup_or_of_the_machine(machine: Path) -> None:
    assert memory.oom_kills() == 3
    grouped(machine, "0::/app", "app", events="oom 9\noom_kill 5")
    assert memory.oom_kills() == 5


def test_a_machine_with_hardly_any_memory_left_is_told_as_such(machine: Path) -> None:
    (machine / "proc" / "meminfo").write_text("MemTotal: 8388608 kB\nMemAvailable: 100000 kB\n")
    assert memory.scarce()


def test_where_nothing_is_known_of_the_memory_nothing_is_limited(machine: Path) -> None:
    (machine / "proc" / "meminfo").unlink()
    assert memory.free_bytes() is None
    assert memory.share_of(None, 2) is None
    assert not memory.scarce()


def test_the_workers_of_a_machine_share_seventy_percent_of_what_is_free() -> None:
    assert memory.share_of(1000, 1) == 700
    assert memory.share_of(1000, 2) == 350


def test_this_process_is_resident_and_one_that_is_gone_is_not() -> None:
    assert memory.resident_bytes(os.getpid()) > 10_000_000
    assert memory.resident_bytes(2**22 + 1) == 0


ALLOCATIONS = {
    "numpy": "import numpy; numpy.ones((1 << 30, 4))",
    "torch": "import torch; torch.ones(1 << 30, 4)",
    "python": "bytearray(1 << 35)",
}


@pytest.mark.slow
@pytest.mark.parametrize("library", ALLOCATIONS)
def test_an_allocation_beyond_the_limit_fails_and_is_known_for_what_it_is(library: str) -> None:
    program = f"""
import os
from worker import memory
memory.restrict(os.getpid(), 3_000_000_000)
assert memory.own_limit() == 3_000_000_000
try:
    {ALLOCATIONS[library]}
except BaseException as error:
    assert memory.is_out_of_memory(error), repr(error)
    memory.lift()
    assert memory.own_limit() is None
    print("told")
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert found.stdout == "told\n", found.stderr


def test_other_errors_are_not_taken_for_a_lack_of_memory() -> None:
    assert not memory.is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not memory.is_out_of_memory(ValueError("allocate memory"))


def test_a_job_that_needed_too_much_says_how_much_and_what_to_change() -> None:
    forecast = {"cpu_seconds": 5.0, "peak_bytes": 1_500_000_000, "basis": "a guess"}
    job = Job(config={"method": "complex"}, forecast=forecast)
    error = out_of_memory(job, 2_000_000_000)
    assert (error["code"], error["limit_bytes"], error["forecast"]) == ("out_of_memory", 2_000_000_000, forecast)
    for part in ("2.0 GB", "1.5 GB", "`rank`", "CTP_TRAIN_MEMORY_BYTES"):
        assert part in error["detail"]
    assert "the machine ran out" in out_of_memory(Job(config={"method": "complex"}), None, machine=True)["detail"]


def test_the_speed_of_a_machine_is_measured_in_a_moment() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    assert SLOWEST <= measured_speed() <= FASTEST
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 2
