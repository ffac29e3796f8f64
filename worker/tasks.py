"""The Celery tasks. What they do is done by child processes."""

from typing import Any

from celery import Celery

from service.queue import BATCH_QUEUE, BATCH_TASK, QUERY_TASK, TRAIN_QUEUE, TRAIN_TASK
from service.settings import Settings
from worker.nursery import nursery
from worker.query_children import query_children


def register(app: Celery, settings: Settings) -> None:
    @app.task(name=TRAIN_TASK)  # type: ignore[untyped-decorator]
    def train(job_id: str) -> None:
        nursery(settings, TRAIN_QUEUE).run(job_id)

    @app.task(name=BATCH_TASK)  # type: ignore[untyped-decorator]
    def batch(job_id: str) -> None:
        nursery(settings, BATCH_QUEUE).run(job_id)

    @app.task(name=QUERY_TASK)  # type: ignore[untyped-decorator]
    def answer(message: dict[str, Any]) -> None:
        query_children(settings).answer(message)
