"""How much memory a child process may take, how much it takes, and whether the kernel has killed for lack of memory.

Reads `/proc` and cgroups; where there are none (macOS), nothing is known and nothing is limited.
"""

import resource
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SHARE = 0.7  # of the free memory that trainings on this machine may take
QUERY_SHARE = 0.5  # of the free memory that the children of a query worker may take
BATCH_SHARE, LEAST_BATCH_BYTES = 0.25, 1_000_000_000  # the same for evaluations
# A machine with less than this left is about to kill processes, so trainings end first.
RESERVE_SHARE, RESERVE_BYTES = 0.02, 200_000_000
# Data that a process reserves and never touches: stacks of threads, arenas of malloc, buffers of BLAS.
UNTOUCHED_BYTES = 1_000_000_000
# Where the kernel must choose a process, it chooses the one that trains, and not the database beside it.
OOM_SCORE = 800

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
FIRST_VERSION = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "memory.oom_control")
PAGE = resource.getpagesize()


def share_of(free: int | None, processes: int, share: float = SHARE) -> int | None:
    """The memory of one of several processes, all of which may need it at once; by default of those that train."""
    return None if free is None else int(share * free / max(1, processes))


def free_bytes() -> int | None:
    """What can still be used without swapping: of the machine, and of each cgroup that this process is in."""
    found = [free for free in (_available(), *(group.left() for group in _cgroups())) if free is not None]
    return min(found, default=None)


def scarce() -> bool:
    """Whether so little memory is left that the kernel may soon kill a process."""
    free, total = _available(), _meminfo().get("MemTotal")
    return free is not None and total is not None and free < min(RESERVE_BYTES, RESERVE_SHARE * total)


def resident_bytes(process: int) -> int:
    """The physical memory of a process, 0 if it is gone."""
    try:
        return int((PROC / str(process) / "statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError, ValueError):
        return 0


def oom_kills() -> int:
    """Processes that the kernel has killed for lack of memory, on this machine and in this cgroup."""
    counted = [_counter(PROC / "vmstat", "oom_kill")]
    counted += [_counter(group.folder / group.events, "oom_kill") for group in _cgroups()]
    return max(counted)


def restrict(process: int, limit: int) -> None:
    """Makes allocations beyond the limit fail in a process, which gives it the chance to say so itself.

    Counts private data. RLIMIT_AS would also count the libraries that torch maps and never reads.
    """
    if hasattr(resource, "prlimit"):
        with suppress(ProcessLookupError, PermissionError):
            _, hard = resource.prlimit(process, resource.RLIMIT_DATA)
            soft = limit + UNTOUCHED_BYTES
            soft = soft if hard == resource.RLIM_INFINITY else min(soft, hard)
            resource.prlimit(process, resource.RLIMIT_DATA, (soft, hard))


def lift() -> None:
    """Removes the limit of this process, so that it can still report what happened."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def own_limit() -> int | None:
    """The limit that `restrict` has set for this process."""
    limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
    return None if limit == resource.RLIM_INFINITY else limit - UNTOUCHED_BYTES


def offer_to_the_kernel() -> None:
    """Makes this process the first to be killed if the machine runs out of memory."""
    with suppress(OSError):
        (PROC / "self" / "oom_score_adj").write_text(str(OOM_SCORE))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error is a failed allocation, by Python, numpy or torch; torch has no class for those on the CPU."""
    text = str(error).lower()
    failed = isinstance(error, RuntimeError) and any(words in text for words in ("allocate memory", "bad_alloc"))
    return isinstance(error, MemoryError) or failed or type(error).__name__ == "OutOfMemoryError"


def _available() -> int | None:
    return _meminfo().get("MemAvailable")


def _meminfo() -> dict[str, int]:
    try:
        lines = (PROC / "meminfo").read_text().splitlines()
    except OSError:
        return {}
    return {name: int(rest.split()[0]) * 1024 for name, rest in (line.split(":", 1) for line in lines)}


@dataclass(frozen=True)
class _Group:
    """A cgroup that counts memory, and the names of its files, which differ between the two versions of cgroups."""

    folder: Path
    most: str = "memory.max"
    used: str = "memory.current"
    caches: str = "inactive_file"
    events: str = "memory.events"

    def left(self) -> int | None:
        """What the group may still use. Caches of files do not count: the kernel drops them when need be."""
        try:
            most = int((self.folder / self.most).read_text())  # "max" means no limit
            used = int((self.folder / self.used).read_text())
        except (OSError, ValueError):
            return None
        return max(0, most - used + _counter(self.folder / "memory.stat", self.caches))


def _cgroups() -> Iterator[_Group]:
    """The cgroups of this process and those around them; inside a container its own may look like the root."""
    try:
        lines = (PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for _, kinds, path in (line.split(":", 2) for line in lines):
        if kinds and "memory" not in kinds.split(","):
            continue
        top = CGROUPS / "memory" if kinds else CGROUPS
        folder = top / path.lstrip("/")
        while folder.is_relative_to(top):
            yield _Group(folder, *FIRST_VERSION) if kinds else _Group(folder)
            folder = folder.parent


def _counter(path: Path, name: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[0] == name), 0)
