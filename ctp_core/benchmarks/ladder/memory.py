"""The resident memory of processes, as Linux tells it."""

import resource
from pathlib import Path


def reset_peak() -> None:
    """Forgets the highest resident memory so far, where the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:  # the peak then includes what came before
        return


def peak_mb() -> float:
    """The highest resident memory of this process since `reset_peak`."""
    try:
        return _status("self", "VmHWM") / 2**20
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def resident_bytes(pid: int) -> int:
    """What a process holds now; 0 where it has ended or the system does not tell."""
    try:
        return _status(str(pid), "VmRSS")
    except OSError:
        return 0


def _status(pid: str, field: str) -> int:
    for line in Path("/proc", pid, "status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    return 0
