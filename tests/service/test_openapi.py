"""Schemathesis against the OpenAPI document, for a bounded time: whatever is sent, no call answers with a 5xx."""

import os
import subprocess
import sys

import httpx
import pytest

pytestmark = pytest.mark.slow
# Those wait, or keep a connection open, by design.
LEFT_OUT = ["/jobs/{job_id}/events"]


def test_no_generated_call_is_answered_with_a_server_error(client: httpx.Client) -> None:
    paths = [word for path in LEFT_OUT for word in ("--exclude-path", path)]
    checks = ["--checks", "not_a_server_error", "--phases", "examples,fuzzing", "--max-examples", "8", "--seed", "0"]
    limits = ["--request-timeout", "60", "--generation-deterministic", "--max-failures", "5", "--max-time", "30"]
    command = [
        sys.executable,
        "-m",
        "schemathesis.cli",
        "run",
        f"{client.base_url}/openapi.json",
        *checks,
        *limits,
        *paths,
    ]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=250, check=False, env=os.environ | {"NO_COLOR": "1"}
    )
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-1000:]
