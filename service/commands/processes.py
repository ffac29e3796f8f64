"""Commands that run the service: all of it with `ctp up`, or one part."""

import os
import signal
import threading
import time
from enum import StrEnum
from typing import Annotated

import typer

from service.commands.extras import needs
from service.local.processes import worker_command
from service.settings import UserError, get_settings


class WorkerRole(StrEnum):
    train = "train"
    query = "query"
    batch = "batch"


@needs("all")
def up(
    port: Annotated[int | None, typer.Option(help="Port of the API.", envvar="PORT", min=0, max=65535)] = None,
) -> None:
    """Start the whole service: database, queue, API, workers and dispatcher."""
    from service.local.supervisor import Supervisor  # noqa: PLC0415
    from service.logs import configure_logs  # noqa: PLC0415

    settings = get_settings()
    # The terminal shows only the supervisor's messages; the parts have log files of their own.
    configure_logs("WARNING")
    if port is not None:
        settings = settings.model_copy(update={"port": port})
    raise typer.Exit(Supervisor(settings).run())


@needs("service")
def api() -> None:
    """Run the API."""
    from service.db.engine import Database  # noqa: PLC0415
    from service.db.migrate import check_schema  # noqa: PLC0415
    from service.db.reach import reaching  # noqa: PLC0415
    from service.http.server import run  # noqa: PLC0415
    from service.keys.service import NO_KEYS, may_listen  # noqa: PLC0415
    from service.queue import redis_url  # noqa: PLC0415

    settings = get_settings()
    redis_url(settings)
    with reaching(settings.database):
        database = Database(settings.database)
        check_schema(database.engine)
        if not may_listen(database, settings):
            raise UserError(NO_KEYS.format(host=settings.host))
        database.dispose()
    run(settings)


@needs("worker")
def worker(
    role: Annotated[
        WorkerRole, typer.Argument(help="train: train models; query: answer queries; batch: evaluate models.")
    ],
) -> None:
    """Run a Celery worker that trains models, answers queries or evaluates models."""
    command = worker_command(role.value)
    os.execv(command[0], command)  # noqa: S606


@needs("service")
def dispatch() -> None:
    """Run the dispatcher, which sends jobs to the queue and takes jobs back from silent workers."""
    from service.dispatch import Dispatcher  # noqa: PLC0415
    from service.local.freed_memory import give_back_regularly  # noqa: PLC0415
    from service.logs import configure_logs  # noqa: PLC0415

    settings = get_settings()
    configure_logs(settings.log_level)
    give_back_regularly()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    Dispatcher(settings).run(stop)


@needs("service")
def migrate(
    wait: Annotated[float, typer.Option(help="Seconds to wait for a database that does not answer yet.", min=0)] = 0,
    take_store: Annotated[
        bool,
        typer.Option("--take-store", help="Take over the model files at CTP_ARTIFACTS_URL from another database."),
    ] = False,
) -> None:
    """Migrate the database to the newest schema, mark the store of files, move KBs into it and load the samples."""
    from service.db.engine import AWAY_ERRORS, Database  # noqa: PLC0415
    from service.db.reach import reaching  # noqa: PLC0415
    from service.facts.files import KbFiles  # noqa: PLC0415
    from service.files.storage import StorageError  # noqa: PLC0415
    from service.preparing import prepare  # noqa: PLC0415

    settings = get_settings()
    with reaching(settings.database):
        if not settings.database_url:
            settings.make_data_dir()
        database, deadline = Database(settings.database), time.monotonic() + wait
        while True:
            try:
                prepare(database, KbFiles.of(settings), take_store)
                break
            except StorageError as error:
                raise UserError(str(error)) from error
            except AWAY_ERRORS:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(1)
