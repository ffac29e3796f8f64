"""What was looked up a moment ago is not looked up again."""

import asyncio
import threading

import pytest

from service.http import cache
from service.http.cache import Cache


class Source:
    """Counts how often it is asked; `may_answer` holds it up."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = threading.Event()
        self.fails = False

    def look_up(self, key: str) -> str:
        self.asked.append(key)
        assert self.may_answer.wait(10)
        if self.fails:
            raise LookupError(key)
        return key.upper()


def test_a_hundred_callers_at_once_ask_once() -> None:
    source = Source()
    known = Cache(source.look_up)

    async def run() -> list[str]:
        calls = [asyncio.create_task(known.get("a")) for _ in range(100)]
        await asyncio.sleep(0)
        source.may_answer.set()
        return await asyncio.gather(*calls)

    assert asyncio.run(run()) == ["A"] * 100
    assert source.asked == ["a"]


@pytest.mark.parametrize(("seconds", "fresh", "asked"), [(60.0, False, 1), (60.0, True, 2), (0.0, False, 2)])
def test_what_is_old_or_asked_for_afresh_is_looked_up_again(seconds: float, fresh: bool, asked: int) -> None:
    source = Source()
    source.may_answer.set()
    known = Cache(source.look_up, seconds)

    async def run() -> None:
        await known.get("a")
        await known.get("a", fresh=fresh)

    asyncio.run(run())
    assert source.asked == ["a"] * asked


def test_an_error_reaches_all_who_wait_and_is_not_remembered() -> None:
    source = Source()
    source.may_answer.set()
    source.fails = True
    known = Cache(source.look_up)

    async def run() -> str:
        for _ in range(2):
            failed = await asyncio.gather(*(known.get("a") for _ in range(3)), return_exceptions=True)
            assert [type(error) for error in failed] == [LookupError] * 3
        source.fails = False
        return await known.get("a")

    assert asyncio.run(run()) == "A"
    assert source.asked == ["a", "a", "a"]


def test_a_caller_that_goes_away_does_not_take_the_answer_from_others() -> None:
    source = Source()
    known = Cache(source.look_up)

    async def run() -> str:
        gone, patient = asyncio.create_task(known.get("a")), asyncio.create_task(known.get("a"))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        source.may_answer.set()
        return await patient

    assert asyncio.run(run()) == "A"
    assert source.asked == ["a"]


def test_many_other_keys_do_not_make_one_in_use_be_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything was forgotten once there were too many keys, and a stranger may send as many as it likes."""
    monkeypatch.setattr(cache, "MAX_KEYS", 3)
    source = Source()
    source.may_answer.set()
    known = Cache(source.look_up, 60.0)

    async def run() -> None:
        for number in range(10):
            await known.get("used")
            await known.get(f"other {number}")
        await known.get("other 0")

    asyncio.run(run())
    assert source.asked.count("used") == 1
    assert source.asked.count("other 0") == 2, "the number of keys is bounded"
