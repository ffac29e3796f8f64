"""The queue: Celery on Redis. It only wakes workers up; the database holds the state of every job."""

import json
import os
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from celery import Celery
from redis import Redis
from redis.exceptions import RedisError

from service.errors import Unavailable
from service.settings import Settings

TRAIN_QUEUE, BATCH_QUEUE, QUERY_QUEUE = "train", "batch", "query"
TRAIN_TASK, BATCH_TASK, QUERY_TASK = "worker.train", "worker.batch", "worker.answer"
JOB_TASKS = {TRAIN_QUEUE: TRAIN_TASK, BATCH_QUEUE: BATCH_TASK}  # queue of jobs -> its task
PRIORITIES = 10
ALIVE_SECONDS, ALIVE_EVERY_SECONDS = 6, 2
PUBLISH_TIMEOUT_SECONDS = 5


def redis_url(settings: Settings) -> str:
    if not settings.redis_url:
        raise Unavailable(
            "no_redis", "CTP_REDIS_URL is not set: start everything with `ctp up`, or set it to the URL of your Redis"
        )
    return settings.redis_url


def celery_url(url: str) -> str:
    """Returns the URL in Celery's spelling, which has its own scheme for sockets."""
    return url.replace("unix://", "redis+socket://", 1) if urlsplit(url).scheme == "unix" else url


def make_celery(settings: Settings) -> Celery:
    """Makes the Celery app of both sides: the service sends tasks by name, the workers register them."""
    app = Celery("ctp", broker=celery_url(redis_url(settings)), set_as_current=False)
    app.conf.update(
        task_ignore_result=True,
        task_acks_late=False,
        worker_hijack_root_logger=False,
        worker_send_task_events=False,
        worker_enable_remote_control=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "priority_steps": list(range(PRIORITIES)),
            "queue_order_strategy": "priority",
            "socket_timeout": PUBLISH_TIMEOUT_SECONDS,
            "socket_connect_timeout": PUBLISH_TIMEOUT_SECONDS,
        },
        task_serializer="json",
        accept_content=["json"],
    )
    return app


def make_redis(settings: Settings) -> Redis:
    """Makes a client with short timeouts, for calls that Redis answers at once."""
    seconds = PUBLISH_TIMEOUT_SECONDS
    return Redis.from_url(redis_url(settings), socket_timeout=seconds, socket_connect_timeout=seconds)


def publish_job(app: Celery, job_id: str, priority: int, queue: str = TRAIN_QUEUE) -> None:
    """Sends a job to its queue. Redis serves priority 0 first; for users, a larger number is more urgent."""
    app.send_task(
        JOB_TASKS[queue],
        args=[job_id],
        # Lets `_messages` tell which jobs are in the queue.
        task_id=job_id,
        queue=queue,
        priority=PRIORITIES - 1 - priority,
        retry=False,
        ignore_result=True,
    )


def waiting_jobs(redis: Any, *queues: str) -> set[str]:
    """Returns the ids of the jobs in these queues; in both if none is named."""
    return {job_id for queue in queues or JOB_TASKS for _, _, job_id in _messages(redis, queue)}


def withdraw_jobs(redis: Any, job_ids: Collection[str]) -> None:
    """Takes jobs out of their queues, if they are there."""
    for queue in JOB_TASKS:
        for name, message, job_id in _messages(redis, queue):
            if job_id in job_ids:
                redis.lrem(name, 0, message)


def _messages(redis: Any, queue: str) -> Iterator[tuple[str, bytes, str]]:
    """Yields (list, message, job id) for a queue of jobs; the transport keeps one list for each priority."""
    separator = "\x06\x16"
    for name in (queue, *(f"{queue}{separator}{step}" for step in range(1, PRIORITIES))):
        for message in redis.lrange(name, 0, -1):
            # A foreign message must not stop the dispatcher.
            with suppress(ValueError, KeyError, TypeError):
                yield name, message, json.loads(message)["headers"]["id"]


def alive_key(role: str, owner: str) -> str:
    return f"ctp:alive:{role}:{owner}"


def able(redis: Any, role: str, machine: str = "*") -> list[int]:
    """Returns what each worker of a role, on one machine or on all, has announced in the last seconds.

    That is the number of its processes that can work.
    """
    keys = list(redis.scan_iter(match=alive_key(role, f"{machine}:*"), count=1000))
    return [int(value) for value in (redis.mget(keys) if keys else ()) if value is not None]


def alive(redis: Any, role: str, machine: str = "*") -> int:
    """Counts the workers of a role that can work."""
    return sum(number > 0 for number in able(redis, role, machine))


class Presence:
    """Announces this process in Redis for as long as the block runs, with the number of its processes that can work."""

    def __init__(self, settings: Settings, role: str, able: Callable[[], int] = lambda: 1) -> None:
        self._redis, self._able = make_redis(settings), able
        self._key = alive_key(role, f"{socket.gethostname()}:{os.getpid()}")
        self._news, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._announce, name="announce", daemon=True)

    def __enter__(self) -> "Presence":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._news.set()
        self._thread.join(ALIVE_EVERY_SECONDS)
        self._redis.close()

    def tell(self) -> None:
        """Announces at once, because the number has changed."""
        self._news.set()

    def _announce(self) -> None:
        while not self._over.is_set():
            self._news.clear()
            # Redis may come back; until then our silence tells others that we cannot be reached.
            with suppress(RedisError):
                self._redis.set(self._key, self._able(), ex=ALIVE_SECONDS)
            self._news.wait(ALIVE_EVERY_SECONDS)
