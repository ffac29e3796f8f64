"""The Celery app of the workers: `ctp worker train` and `ctp worker query` start it."""

import os
from contextlib import ExitStack

from celery import Celery
from celery.signals import worker_process_init, worker_ready, worker_shutting_down

from service.logs import configure_logs
from service.processes import die_with_parent
from service.queue import QUERY_QUEUE, announced, make_celery
from service.settings import get_settings
from worker.tasks import register

settings = get_settings()
configure_logs(settings.log_level)
app: Celery = make_celery(settings)
app.conf.update(
    # A spawned child rebuilds the app from its settings alone: this module, and so the tasks, must be among them.
    imports=["worker.app"],
    worker_pool_start_method="spawn",
    worker_max_tasks_per_child=1,
    worker_disable_prefetch=True,
    worker_prefetch_multiplier=1,
    # A child loads torch before it reports for work; on a busy machine that takes longer than the usual 4 s,
    # after which it would be killed and begin again.
    worker_proc_alive_timeout=120,
)
register(app, settings)
role = os.environ.get("CTP_WORKER_ROLE", "")
presence = ExitStack()


@worker_process_init.connect  # type: ignore[untyped-decorator]
def warm_up(**_: object) -> None:
    """Runs in a training child before it is needed: torch is loaded here, never in the parent."""
    die_with_parent()
    import worker.training_job  # noqa: F401, PLC0415


@worker_ready.connect  # type: ignore[untyped-decorator]
def announce(**_: object) -> None:
    """A query worker loads torch before it says that it is there."""
    if role == QUERY_QUEUE:
        from worker.query_engine import engine  # noqa: PLC0415

        engine(settings)
    presence.enter_context(announced(settings, role))


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def leave(**_: object) -> None:
    presence.close()
