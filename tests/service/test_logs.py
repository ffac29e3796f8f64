"""Lines of the log, also where they cannot be written."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import logging, structlog
from service.logs import configure_logs
configure_logs("INFO")
for _ in range(3):
    structlog.get_logger().warning("x" * 10_000)
    logging.getLogger("library").warning("x" * 10_000)
print("lived")
"""


def test_a_line_that_cannot_be_written_is_lost_and_nothing_else() -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, text=True, check=False)
    assert done.stdout == "lived\n"
