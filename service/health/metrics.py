"""The page that Prometheus reads: the counters of this process and the state of the database and the queue."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from service.db.engine import Database
from service.health.counters import REGISTRY, WORKER_COUNTS, WORKER_FIELDS
from service.health.service import Parts
from service.queue import JOB_TASKS, QUERY_QUEUE, waiting_jobs
from service.training.repository import num_by_status

CONTENT_TYPE = CONTENT_TYPE_LATEST
JOB_STATES = ("queued", "running", "succeeded", "failed", "cancelled")


class Now:
    """Gauges that are measured at each request; those of a part that is away are left out (see `ctp_part_up`)."""

    def __init__(self, database: Database, redis: Any) -> None:
        self.database, self.redis = database, redis

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("ctp_part_up", "1 if a part of the service is up, else 0.", labels=["part"])
        for part, state in Parts(self.database, self.redis).states().items():
            up.add_metric([part], float(state == "ok"))
        yield up
        with suppress(SQLAlchemyError):
            yield self._jobs()
        try:
            yield self._queues()
            yield from self._workers()
        except RedisError:
            return

    def _jobs(self) -> Metric:
        jobs = GaugeMetricFamily("ctp_jobs", "Jobs by state.", labels=["state"])
        with self.database.read() as session:
            counts = num_by_status(session)
        for state in JOB_STATES:
            jobs.add_metric([state], counts.get(state, 0))
        return jobs

    def _queues(self) -> Metric:
        depth = GaugeMetricFamily("ctp_queue_depth", "Messages that wait in the queue.", labels=["queue"])
        for queue in JOB_TASKS:
            depth.add_metric([queue], len(waiting_jobs(self.redis, queue)))
        depth.add_metric([QUERY_QUEUE], self.redis.llen(QUERY_QUEUE))
        return depth

    def _workers(self) -> Iterator[Metric]:
        counted = self.redis.hgetall(WORKER_COUNTS)
        for name, text in WORKER_FIELDS.items():
            yield CounterMetricFamily(f"ctp_{name}", text, value=int(counted.get(name.encode(), 0)))


def exposition(database: Database, redis: Any) -> bytes:
    now = CollectorRegistry()
    now.register(Now(database, redis))
    return generate_latest(REGISTRY) + generate_latest(now)
