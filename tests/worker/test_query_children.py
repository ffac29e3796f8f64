"""What becomes of a batch when the child that has it hangs or ends. Real children are in tests/faults."""

import os
import threading
import time
from collections import Counter
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import pytest

from service.health.counters import QUERIES_KILLED
from service.settings import Settings
from worker.names import Answered, decode_word, encode_word
from worker.pipes import LENGTH, send
from worker.query_children import BUSY, LOST, Gone, Hung, QueryChild, QueryChildren, TooLarge
from worker.shares import Seat


class Scripted:
    """Stands for a child: hangs, ends or answers each question with its goal, as the goals say."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def answer(self, message: dict[str, Any], patience: float, facts: bytes | None = None) -> Answered:
        assert patience > message["seconds"]
        goals = [question["goal"] for question in message["questions"]]
        self.asked.append(goals)
        if "hang" in goals:
            raise Hung
        if "grow" in goals:
            raise TooLarge
        if "end" in goals:
            raise Gone
        return Answered([goal.encode() for goal in goals], {"questions_answered": len(goals)}, frozenset())


class Children(QueryChildren):
    """Children that are there again as soon as they are gone."""

    def __init__(self) -> None:
        super().__init__(Settings(redis_url="redis://127.0.0.1:1", query_processes=3))
        self.child: Any = Scripted()
        for seat in self.shares.seats:
            self.shares.arrived(seat, self.child)

    def _answered(self, message: dict[str, Any], ends: float, only: Any) -> Any:
        try:
            return super()._answered(message, ends, only)
        finally:
            for seat in self.shares.seats:
                self.shares.arrived(seat, self.child)


def message(**requests: list[str]) -> dict[str, Any]:
    asked = [(request, {"goal": goal}) for request, goals in requests.items() for goal in goals]
    batch = {"request_ids": [request for request, _ in asked], "questions": [question for _, question in asked]}
    return {"tenant": "a", "model_id": "m", "artifact": "x", "kb_id": None, "seconds": 5.0, "facts": []} | batch


def replies(children: QueryChildren, asked: dict[str, Any], seconds: float = 30) -> tuple[list[Any], Any]:
    return children._replies(asked, time.monotonic() + seconds)


def test_a_request_that_takes_too_long_is_a_503_that_says_so() -> None:
    (first, second), counts = replies(Children(), message(one=["x", "hang"]))
    assert first == second
    assert (first["status"], first["code"]) == (503, "query_too_long")
    assert "CTP_QUERY_SECONDS" in first["detail"]
    assert counts[QUERIES_KILLED] == 1


def test_a_request_that_takes_too_much_memory_is_a_503_that_says_so() -> None:
    (first, grown), counts = replies(Children(), message(one=["x"], two=["grow"]))
    assert first == b"x"
    assert (grown["status"], grown["code"]) == (503, "out_of_memory")
    assert "CTP_QUERY_MEMORY_BYTES" in grown["detail"]
    assert counts[QUERIES_KILLED] == 2


class Holding(Scripted):
    """A child with a model of another tenant in memory, beside which there is no room for this question."""

    def __init__(self, seats: list[Seat[Any]]) -> None:
        super().__init__()
        self.seats = seats

    def answer(self, message: dict[str, Any], patience: float, facts: bytes | None = None) -> Answered:
        if any(seat.models for seat in self.seats if seat.holder):
            self.asked.append(["crowded"])
            raise TooLarge
        return super().answer(message, patience, facts)


def crowded() -> Children:
    children = Children()
    children.child = Holding(children.shares.seats)
    for seat in children.shares.seats:
        children.shares.arrived(seat, children.child)
        seat.models = frozenset({("another", None)})
    return children


def test_a_question_that_has_no_room_beside_other_models_is_asked_again_in_a_fresh_child() -> None:
    children = crowded()
    assert replies(children, message(one=["x"])) == ([b"x"], Counter({QUERIES_KILLED: 1, "questions_answered": 1}))
    assert children.child.asked == [["crowded"], ["x"]]


def test_a_question_that_has_no_room_in_a_fresh_child_either_is_not_asked_a_third_time() -> None:
    children = crowded()
    (grown,), counts = replies(children, message(one=["grow"]))
    assert (grown["code"], counts[QUERIES_KILLED]) == ("out_of_memory", 2)
    assert children.child.asked == [["crowded"], ["grow"]]


@pytest.mark.parametrize(("left", "given"), [(1.5, 1.5), (60.0, 5.0)])
def test_a_search_that_begins_late_has_only_the_time_that_is_left(left: float, given: float) -> None:
    children = Children()
    told: list[tuple[float, float]] = []

    def answer(message: dict[str, Any], patience: float, facts: bytes | None = None) -> Answered:
        told.append((message["seconds_left"], patience - children.settings.query_grace_seconds))
        return Answered([b"x"], Counter(), frozenset())

    children.child.answer = answer
    replies(children, message(one=["x"]), left)
    ((seconds_left, patience),) = told
    assert 0 < seconds_left <= left
    assert 0 < patience <= given


def test_other_requests_of_the_same_batch_do_not_notice() -> None:
    children = Children()
    (first, *hung, last), counts = replies(children, message(one=["x"], two=["y", "hang"], three=["z"]))
    assert (first, last) == (b"x", b"z")
    assert [reply["code"] for reply in hung] == ["query_too_long"] * 2
    assert children.child.asked == [["x", "y", "hang", "z"], ["x"], ["y", "hang"], ["z"]]
    assert (counts[QUERIES_KILLED], counts["questions_answered"]) == (2, 2)


def test_a_child_that_ends_by_itself_costs_its_batch_one_more_try() -> None:
    children = Children()
    assert replies(children, message(one=["end", "x"]))[0] == [LOST, LOST]
    assert len(children.child.asked) == 2


def test_a_batch_that_gets_no_child_in_time_is_told() -> None:
    children = Children()
    for seat in children.shares.seats:
        children.shares.lost(seat)
    assert replies(children, message(one=["x"]), seconds=0.01)[0] == [BUSY]


def test_a_batch_leaves_its_child_free() -> None:
    children = Children()
    replies(children, message(one=["x"]))
    assert [seat.holder for seat in children.shares.seats] == [None] * 3


@pytest.mark.parametrize("goal", ["hang", "end"])
def test_a_lost_child_is_held_by_its_tenant_until_the_next_is_ready(goal: str) -> None:
    children = QueryChildren(Settings(redis_url="redis://127.0.0.1:1", query_processes=3))
    seats: list[Seat[Any]] = list(children.shares.seats)
    for seat in seats:
        children.shares.arrived(seat, Scripted())  # type: ignore[arg-type]
    replies(children, message(one=[goal]))
    assert [seat.holder for seat in seats if seat.holder] == [("a", ("x", None))] * (1 if goal == "hang" else 2)


@pytest.mark.parametrize("size", [3, LENGTH.size, LENGTH.size + 5])
def test_a_child_that_stops_halfway_through_a_message_hangs(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.query_children.READ_SECONDS", 0.1)
    child, words = half_child()
    os.write(words.fileno(), (LENGTH.pack(100) + b"half of what it wanted to say")[:size])
    heard: list[type[BaseException]] = []

    def listen() -> None:
        try:
            child._heard(60.0)
        except Exception as error:
            heard.append(type(error))

    listening = threading.Thread(target=listen, daemon=True)
    listening.start()
    listening.join(30)
    assert heard == [Hung]


def test_a_child_that_ends_halfway_through_a_message_is_gone() -> None:
    child, words = half_child()
    os.write(words.fileno(), LENGTH.pack(100) + b"half")
    words.close()
    with pytest.raises(Gone):
        child._heard(60.0)


def test_a_message_larger_than_a_pipe_is_heard_in_pieces() -> None:
    child, words = half_child()
    word = Answered([b"x" * 5_000_000], Counter(), frozenset())
    saying = threading.Thread(target=lambda: send(words.fileno(), encode_word(word)))
    saying.start()
    assert child._heard(60.0) == word
    saying.join()


def half_child() -> tuple[QueryChild, Connection]:
    """What a parent has of a child, and the end of the pipe on which the child speaks."""
    child = QueryChild.__new__(QueryChild)
    child.limit = None
    child._words, words = Pipe(duplex=False)
    return child, words


@pytest.mark.parametrize(
    "word",
    [
        2.5,
        Answered([], Counter(), frozenset()),
        Answered(
            [b'"a":\n1', {"status": 503}, b""], Counter({"hits": 2}), frozenset({("models/1/x", None), ("y", "kb_1")})
        ),
    ],
)
def test_a_word_of_a_child_is_heard_as_it_was_said(word: float | Answered) -> None:
    assert decode_word(encode_word(word)) == word
