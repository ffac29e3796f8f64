"""Rules about who may import whom that import-linter cannot see."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.installed import imported, run_with

ROOT = Path(__file__).parents[2]
# The age of files is told by the machine that looks at them, and only by hours.
FILE_AGES = {"service/facts/cache.py", "service/files/garbage.py", "service/files/object_storage.py"}


@pytest.mark.slow
def test_torch_is_loaded_only_by_the_processes_that_use_it() -> None:
    modules = [
        "service.local.supervisor",
        "service.cli",
        "service.app",
        "service.dispatch",
        "worker.app",
        "worker.nursery",
        "worker.query_children",
    ]
    code = "; ".join(f"import {module}; assert 'torch' not in sys.modules, '{module}'" for module in modules)
    environment = {"CTP_REDIS_URL": "redis://127.0.0.1:1/0"}
    done = subprocess.run([sys.executable, "-c", f"import sys; {code}"], env=environment, check=False)
    assert done.returncode == 0


def test_the_client_imports_httpx_and_pydantic_and_nothing_else() -> None:
    packages = {name for path in (ROOT / "ctp_client").rglob("*.py") for name in imported(path)}
    assert packages - sys.stdlib_module_names == {"ctp_client", "httpx", "pydantic"}


@pytest.mark.slow
def test_the_client_works_where_nothing_else_is_installed() -> None:
    code = "from ctp_client import Client, Unreachable\n"
    code += "try: Client('http://127.0.0.1:1').kbs.get('family')\nexcept Unreachable as error: print(error)"
    done = run_with(["httpx", "pydantic"], code, hidden=["ctp_core", "service", "worker", "migrations"])
    assert done.stdout.startswith("cannot reach the service at http://127.0.0.1:1"), done.stderr


def clocks(path: Path) -> list[str]:
    """Where a module asks this machine what time it is."""
    calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    asked = {"time.time", "datetime.now", "datetime.utcnow", "datetime.today"}
    return [f"{path.relative_to(ROOT)}:{call.lineno}" for call in calls if ast.unparse(call) in asked]


@pytest.mark.slow
def test_times_come_from_the_database() -> None:
    """Machines disagree about the time; leases and the order of versions may not depend on it."""
    modules = [path for package in ("service", "worker") for path in (ROOT / package).rglob("*.py")]
    assert [p for path in modules for p in clocks(path) if p.split(":")[0] not in FILE_AGES] == []
