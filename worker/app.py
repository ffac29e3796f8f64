"""The Celery app of the workers: `ctp worker train` and `ctp worker query` start it."""

import os
from contextlib import ExitStack

from celery import Celery
from celery.signals import worker_ready, worker_shutting_down

from service.logs import configure_logs
from service.queue import QUERY_QUEUE, announced, make_celery
from service.settings import get_settings
from worker.tasks import register

settings = get_settings()
configure_logs(settings.log_level)
app: Celery = make_celery(settings)
app.conf.update(worker_disable_prefetch=True, worker_prefetch_multiplier=1)
register(app, settings)
role = os.environ.get("CTP_WORKER_ROLE", "")
presence = ExitStack()


@worker_ready.connect  # type: ignore[untyped-decorator]
def announce(**_: object) -> None:
    """A query worker loads torch before it says that it is there; a train worker has a child do so."""
    if role == QUERY_QUEUE:
        from worker.query_engine import engine  # noqa: PLC0415

        engine(settings)
    else:
        from worker.nursery import nursery  # noqa: PLC0415

        nursery(settings).prepare()
    presence.enter_context(announced(settings, role))


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def leave(**_: object) -> None:
    presence.close()
    if role != QUERY_QUEUE:
        from worker.nursery import nursery  # noqa: PLC0415

        nursery(settings).close()
