"""Rules about who may import whom that import-linter cannot see."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module", ["service.app", "service.cli", "service.supervisor", "service.dispatch", "worker.app", "worker.nursery"]
)
def test_torch_is_loaded_only_by_the_processes_that_use_it(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    environment = {"CTP_REDIS_URL": "redis://127.0.0.1:1/0"}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
