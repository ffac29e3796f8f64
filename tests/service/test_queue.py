"""Where the queue is."""

import pytest

from service.errors import Unavailable
from service.queue import celery_url, redis_url
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
