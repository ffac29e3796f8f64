"""Runs the Celery app of a train or query worker."""

import gc
from contextlib import ExitStack

from celery.signals import worker_ready, worker_shutting_down

from service.logs import configure_logs
from service.queue import QUERY_QUEUE, announced, make_celery
from service.settings import Settings, get_settings
from worker.tasks import register


def serve(role: str, arguments: list[str]) -> None:
    """Runs a worker until it is told to stop; `arguments` are those of the `celery` program."""
    settings = get_settings()
    configure_logs(settings.log_level)
    app = make_celery(settings)
    # Jobs are not prefetched: they wait in the queue, where any free worker finds them. Batches are, because otherwise
    # the consumer sleeps up to a second after its slots were full.
    app.conf.update(worker_disable_prefetch=role != QUERY_QUEUE, worker_prefetch_multiplier=1)
    register(app, settings)
    presence = ExitStack()

    @worker_ready.connect(weak=False)  # type: ignore[untyped-decorator]
    def announce(**_: object) -> None:
        _prepare(role, settings)
        presence.enter_context(announced(settings, role))

    @worker_shutting_down.connect(weak=False)  # type: ignore[untyped-decorator]
    def leave(**_: object) -> None:
        presence.close()
        if role != QUERY_QUEUE:
            from worker.nursery import nursery  # noqa: PLC0415

            nursery(settings).close()

    app.worker_main(arguments)


def _prepare(role: str, settings: Settings) -> None:
    """Loads torch before a query worker announces itself; a train worker lets a child process load it."""
    if role == QUERY_QUEUE:
        # Loaded modules stay for ever, so the garbage collector need not scan them.
        gc.disable()
        from worker.query_engine import engine  # noqa: PLC0415

        engine(settings)
        gc.freeze()
        # Answers are trees of tuples, freed by reference counting; cycles are rare.
        gc.set_threshold(100_000, 20, 50)
        gc.enable()
    else:
        from worker.nursery import nursery  # noqa: PLC0415

        nursery(settings).prepare_soon()
