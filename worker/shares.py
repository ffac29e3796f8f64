"""Hands out the children of a query worker: by tenant, then by model, then in turn.

Of N ≥ 2 children a tenant holds at most N - 1, so that whatever one tenant asks, there is a child for the others.
"""

import threading
import time
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

Key = tuple[str, str | None]  # a model: its artifact, and the id of another KB if it is applied to one
T = TypeVar("T")


@dataclass(eq=False)
class Seat(Generic[T]):
    """The place of a child: processes come and go, the seat remains."""

    child: T | None = None  # None while a process is being started
    holder: tuple[str, Key] | None = None  # tenant and model of the batch that it works on, or ended with
    models: frozenset[Key] = frozenset()  # those that the child had in memory after its last batch
    used: int = 0

    @property
    def free(self) -> bool:
        return self.child is not None and self.holder is None


@dataclass(eq=False)
class _Ticket(Generic[T]):
    """A batch that waits for a seat."""

    tenant: str
    model: Key
    number: int
    seat: Seat[T] | None = None  # the only one that will do
    given: tuple[Seat[T], T] | None = None
    called: threading.Event = field(default_factory=threading.Event)


class Shares(Generic[T]):
    """Who holds which child, and who waits for one; safe to use from several threads."""

    def __init__(self, num_seats: int) -> None:
        self.seats: list[Seat[T]] = [Seat() for _ in range(num_seats)]
        self.most = max(1, num_seats - 1)  # seats that one tenant may hold
        self._waiting: list[_Ticket[T]] = []
        self._turns = count(1)
        self._last_turn: dict[str | tuple[str, Key], int] = {}  # of a tenant, and of each of its models
        self._lock = threading.Lock()

    @property
    def able(self) -> int:
        """The number of children that can answer now or after the batch they have."""
        return sum(seat.child is not None for seat in self.seats)

    def take(self, tenant: str, model: Key, ends: float, seat: Seat[T] | None = None) -> tuple[Seat[T], T] | None:
        """Waits until its turn comes; returns a seat with its child, None if not before `ends` (monotonic time).

        `seat` is one that the tenant has just lost: its next child comes to this batch before all others.
        """
        with self._lock:
            ticket: _Ticket[T] = _Ticket(tenant, model, next(self._turns), seat)
            self._waiting.append(ticket)
            self._call()
        if not ticket.called.wait(max(0.0, ends - time.monotonic())):
            with self._lock:
                if ticket.given is None:
                    self._waiting.remove(ticket)
        return ticket.given

    def give_back(self, seat: Seat[T], child: T, models: frozenset[Key]) -> None:
        """The child has done its batch; does nothing if it has ended since, for then the seat has another story."""
        with self._lock:
            if seat.child is child:
                seat.holder, seat.models = None, models
                self._call()

    def arrived(self, seat: Seat[T], child: T) -> None:
        """A child is ready in this seat: whoever held it before does no longer."""
        with self._lock:
            seat.child, seat.holder, seat.models = child, None, frozenset()
            self._call()

    def lost(self, seat: Seat[T]) -> None:
        """The child is gone. Until the next one is ready, the seat counts as held by whose batch it ended with."""
        with self._lock:
            seat.child = None

    def _call(self) -> None:
        """Gives free seats to those who are next."""
        while (ticket := self._next()) is not None:
            free = [seat for seat in self.seats if seat.free and ticket.seat in (None, seat)]
            # The one that has the model already; otherwise the one that keeps the fewest others.
            seat = min(free, key=lambda seat: (ticket.model not in seat.models, len(seat.models), seat.used))
            self._waiting.remove(ticket)
            turn = next(self._turns)
            seat.holder, seat.used = (ticket.tenant, ticket.model), turn
            self._last_turn[ticket.tenant] = self._last_turn[ticket.tenant, ticket.model] = turn
            assert seat.child is not None
            ticket.given = seat, seat.child
            ticket.called.set()
        if not self._waiting:
            self._last_turn.clear()

    def _next(self) -> _Ticket[T] | None:
        """Returns who is next among those whose tenant may hold one more seat, if a seat is free."""
        if not any(seat.free for seat in self.seats):
            return None
        able = [ticket for ticket in self._waiting if ticket.seat is None or ticket.seat.free]
        allowed = [ticket for ticket in able if self._held(ticket.tenant) < self.most]
        return min(allowed, key=self._rank, default=None)

    def _rank(self, ticket: _Ticket[T]) -> tuple[bool, int, int, int, int, int]:
        own = (ticket.tenant, ticket.model)
        turn, model_turn = self._last_turn.get(ticket.tenant, 0), self._last_turn.get(own, 0)
        model_held = sum(seat.holder == own for seat in self.seats)
        return ticket.seat is None, self._held(ticket.tenant), turn, model_held, model_turn, ticket.number

    def _held(self, tenant: str) -> int:
        return sum(seat.holder is not None and seat.holder[0] == tenant for seat in self.seats)
