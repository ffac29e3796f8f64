"""What was held once goes back to the machine, also from the heaps of threads."""

import subprocess
import sys

MIB = 1024 * 1024
HOLDER = """
import ctypes, threading
from pathlib import Path
from service.local.freed_memory import give_back_large_pieces

MIB = 1024 * 1024
THREADS = 4


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def hold_bodies():
    for _ in range(3):
        body = bytes(16 * MIB)
        del body
        names = [bytes(700) for _ in range(30_000)]
        del names
    held.wait()  # a thread that has ended gives its heap to the next
    over.wait()


give_back_large_pieces()
before = resident()
held, over = threading.Barrier(THREADS + 1), threading.Event()
threads = [threading.Thread(target=hold_bodies) for _ in range(THREADS)]
for thread in threads:
    thread.start()
held.wait()
ctypes.CDLL(None).malloc_trim(0)
print(resident() - before)
over.set()
"""


def test_large_bodies_and_their_names_leave_nothing_behind_in_the_heaps_of_threads() -> None:
    """They left more than a hundred megabytes for as long as the process lived."""
    done = subprocess.run([sys.executable, "-c", HOLDER], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 16 * MIB
