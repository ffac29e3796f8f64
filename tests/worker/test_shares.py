"""Who gets a child of a query worker, and who waits."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from service.local.cluster import wait_for
from worker.shares import Key, Seat, Shares

ONE, TWO, THREE = (("one", None), ("two", None), ("three", None))
NOTHING: frozenset[Key] = frozenset()


def shares(num_seats: int) -> Shares[str]:
    made: Shares[str] = Shares(num_seats)
    for number, seat in enumerate(made.seats):
        made.arrived(seat, f"child {number}")
    return made


def now(made: Shares[str], tenant: str, model: Key = ONE) -> Seat[str] | None:
    """The seat that is free for this batch at once."""
    given = made.take(tenant, model, ends=0.0)
    return None if given is None else given[0]


def give_back(made: Shares[str], seat: Seat[str] | None, *models: Key) -> None:
    assert seat is not None
    assert seat.child is not None
    made.give_back(seat, seat.child, frozenset(models))


def test_a_tenant_holds_all_children_but_one() -> None:
    made = shares(3)
    assert now(made, "a") is not None
    assert now(made, "a", TWO) is not None
    assert now(made, "a", THREE) is None
    assert now(made, "b") is not None


def test_the_next_child_of_a_lost_seat_comes_to_who_waits_for_that_seat() -> None:
    made = shares(2)
    held, other = now(made, "a"), now(made, "b")
    assert held is not None
    made.lost(held)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(made.take, "c", ONE, time.monotonic() + 30)
        wait_for(lambda: len(made._waiting) == 1, "c waits")
        again = pool.submit(made.take, "a", ONE, time.monotonic() + 30, held)
        wait_for(lambda: len(made._waiting) == 2, "a waits too")
        made.arrived(held, "the next child")
        assert again.result(30) == (held, "the next child")
        assert not first.done()
        give_back(made, other)
        given = first.result(30)
        assert given is not None
        assert given[0] is other


def test_one_child_is_for_everybody() -> None:
    made = shares(1)
    held = now(made, "a")
    assert held is not None
    assert now(made, "b") is None
    give_back(made, held)
    assert now(made, "b") is held


def test_who_kills_a_child_cannot_have_the_last_one_while_it_is_started_again() -> None:
    made = shares(2)
    held = now(made, "a")
    assert held is not None
    made.lost(held)
    assert made.able == 1
    assert now(made, "a") is None
    other = now(made, "b")
    assert other not in (None, held)
    made.arrived(held, "the next child")
    assert now(made, "a") is held


def test_a_child_that_ends_without_a_batch_costs_nobody_a_share() -> None:
    made = shares(2)
    made.lost(made.seats[0])
    assert now(made, "a") is made.seats[1]


def test_a_child_that_was_replaced_meanwhile_is_not_given_back() -> None:
    made = shares(2)
    held = now(made, "a")
    assert held is not None
    former = held.child
    assert former is not None
    made.arrived(held, "the next child")
    assert now(made, "b", TWO) is not None
    assert now(made, "c", TWO) is not None
    made.give_back(held, former, NOTHING)
    assert now(made, "d") is None


def test_a_model_is_asked_where_it_is_in_memory() -> None:
    made = shares(3)
    first = now(made, "a", ONE)
    give_back(made, first, ONE)
    second = now(made, "a", TWO)
    assert second is not first, "another child has more room"
    give_back(made, second, TWO)
    assert now(made, "b", ONE) is first
    assert now(made, "b", ONE) is not None, "nobody waits for a child only because it has the model"


def test_tenants_take_turns_and_so_do_their_models() -> None:
    made = shares(2)
    held = now(made, "a")
    blocking = now(made, "x")  # holds the other child all the time
    order: list[tuple[str, Key]] = []
    lock = threading.Lock()

    def wait(tenant: str, model: Key) -> None:
        given = made.take(tenant, model, time.monotonic() + 30)
        assert given is not None
        with lock:
            order.append((tenant, model))
        give_back(made, given[0])

    batches = [("a", ONE), ("a", ONE), ("a", ONE), ("a", TWO), ("b", ONE), ("b", ONE)]
    with ThreadPoolExecutor(len(batches)) as pool:
        for number, batch in enumerate(batches, 1):
            pool.submit(wait, *batch)
            wait_for(lambda number=number: len(made._waiting) == number, "it waits")
        give_back(made, held)
    assert order == [("a", ONE), ("b", ONE), ("a", TWO), ("b", ONE), ("a", ONE), ("a", ONE)]
    give_back(made, blocking)
    assert not made._last_turn, "nothing is remembered of those who do not wait"
