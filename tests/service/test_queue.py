"""Where the queue is."""

import json

import pytest

from service.errors import Unavailable
from service.queue import celery_url, redis_url, waiting_jobs, withdraw_jobs
from service.settings import Settings


def test_a_part_that_was_told_of_no_queue_says_how_to_get_one() -> None:
    with pytest.raises(Unavailable, match="ctp up") as caught:
        redis_url(Settings(redis_url=""))
    assert caught.value.code == "no_redis"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("unix:///data/queue.sock", "redis+socket:///data/queue.sock"), ("redis://here:6379/0", "redis://here:6379/0")],
)
def test_celery_has_its_own_name_for_sockets(ours: str, theirs: str) -> None:
    assert celery_url(ours) == theirs


class Lists:
    """As much of Redis as a queue is."""

    def __init__(self, **lists: list[bytes]) -> None:
        self.lists = lists

    def lrange(self, name: str, *_: int) -> list[bytes]:
        return list(self.lists.get(name, []))

    def lrem(self, name: str, _: int, message: bytes) -> None:
        self.lists[name].remove(message)


def test_jobs_are_withdrawn_and_what_is_no_job_of_ours_stays() -> None:
    messages = [json.dumps({"headers": {"id": job}}).encode() for job in ("a", "b", "c")]
    odd = [b"\xff", b"[]", b"{}", b"null"]
    redis = Lists(train=[*messages, *odd])
    assert waiting_jobs(redis) == {"a", "b", "c"}
    withdraw_jobs(redis, {"a", "c", "d"})
    assert redis.lists["train"] == [messages[1], *odd]
