"""The Celery tasks. Torch is imported only in the process that needs it, when it needs it."""

from typing import Any

from celery import Celery

from service.queue import QUERY_TASK, TRAIN_TASK
from service.settings import Settings


def register(app: Celery, settings: Settings) -> None:
    @app.task(name=TRAIN_TASK)  # type: ignore[untyped-decorator]
    def train(job_id: str) -> None:
        from worker.nursery import nursery  # noqa: PLC0415

        nursery(settings).run(job_id)

    @app.task(name=QUERY_TASK)  # type: ignore[untyped-decorator]
    def answer(message: dict[str, Any]) -> None:
        from worker.query_engine import engine  # noqa: PLC0415

        engine(settings).answer(message)
