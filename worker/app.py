"""Runs the Celery app of a worker. It never loads torch: its child processes do."""

from contextlib import ExitStack

from celery.signals import worker_ready, worker_shutdown, worker_shutting_down

from service.local.freed_memory import give_back_regularly
from service.logs import configure_logs
from service.queue import QUERY_QUEUE, TRAIN_QUEUE, Presence, make_celery
from service.settings import get_settings
from worker.nursery import nursery
from worker.query_children import query_children
from worker.tasks import register


def serve(role: str, arguments: list[str]) -> None:
    """Runs a worker until it is told to stop; `arguments` are those of the `celery` program."""
    settings = get_settings()
    configure_logs(settings.log_level)
    give_back_regularly()
    app = make_celery(settings)
    # Jobs are not prefetched: they wait in the queue, where any free worker finds them. Batches are, because otherwise
    # the consumer sleeps up to a second after its slots were full.
    app.conf.update(worker_disable_prefetch=role != QUERY_QUEUE, worker_prefetch_multiplier=1)
    register(app, settings)
    if role == QUERY_QUEUE:
        children = query_children(settings)
        presence = Presence(settings, role, lambda: children.shares.able)
        children.on_change = presence.tell
        children.start()  # at once: they take longer to start than Celery does
    else:
        presence = Presence(settings, role)
    present = ExitStack()

    @worker_ready.connect(weak=False)  # type: ignore[untyped-decorator]
    def announce(**_: object) -> None:
        if role == TRAIN_QUEUE:  # evaluations are rare: their child is started for the first one
            nursery(settings, role).prepare_soon()
        present.enter_context(presence)

    @worker_shutting_down.connect(weak=False)  # type: ignore[untyped-decorator]
    def leave(**_: object) -> None:
        present.close()
        if role == QUERY_QUEUE:
            query_children(settings).leave()
        else:
            nursery(settings, role).close()

    @worker_shutdown.connect(weak=False)  # type: ignore[untyped-decorator]
    def end(**_: object) -> None:
        """Called when the last batch is answered."""
        if role == QUERY_QUEUE:
            query_children(settings).close()

    app.worker_main(arguments)
