"""`ctp alive`: the health check of containers."""

import socket
from enum import StrEnum
from typing import Annotated

import typer

from service.commands.extras import needs


class AlivePart(StrEnum):
    api = "api"
    dispatch = "dispatch"
    train = "train"
    query = "query"
    batch = "batch"


@needs("service", "worker")
def alive(part: Annotated[AlivePart, typer.Argument(help="The part that runs on this machine.")]) -> None:
    """Exit with 0 if the given part of the service works on this machine, else with 1."""
    raise typer.Exit(0 if _alive(part) else 1)


def _alive(part: AlivePart) -> bool:
    import httpx  # noqa: PLC0415
    from redis.exceptions import RedisError  # noqa: PLC0415

    from service.db.engine import Database  # noqa: PLC0415
    from service.health.service import Parts  # noqa: PLC0415
    from service.leadership import DISPATCHER  # noqa: PLC0415
    from service.queue import alive as num_alive  # noqa: PLC0415
    from service.queue import make_redis  # noqa: PLC0415
    from service.settings import get_settings  # noqa: PLC0415

    settings = get_settings()
    if part is AlivePart.api:
        try:
            return httpx.get(f"http://127.0.0.1:{settings.port}/healthz", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False
    if part is AlivePart.dispatch:
        # Any leader will do: the other dispatchers are ready to replace it.
        return Parts(Database(settings.database), make_redis(settings)).states()[DISPATCHER] == "ok"
    try:
        return num_alive(make_redis(settings), part.value, socket.gethostname()) > 0
    except RedisError:
        return False
