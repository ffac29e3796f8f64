"""Weighted numbers of paths on dense tables, and how many of them use the very fact they should prove."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

Places = tuple[Float[Tensor, "goal reformulator entity entity"], ...]


@dataclass(frozen=True)
class AskedFacts:
    """The facts asked for while training: fact i belongs to row goal[i] of the goals, and no body may use it."""

    goal: Int[Tensor, " fact"]
    predicate: Int[Tensor, " fact"]
    subject: Int[Tensor, " fact"]
    object: Int[Tensor, " fact"]


def mix(
    attention: Float[Tensor, "goal reformulator place atom"], tables: Float[Tensor, "atom entity entity"]
) -> Places:
    """The table of each body place: the atoms' tables weighted by attention."""
    goals, reformulators, num_places, _ = attention.shape
    cells = tables.flatten(1)  # [atom, entity · entity]
    mixed = (attention[:, :, place].flatten(0, 1) @ cells for place in range(num_places))
    return tuple(one.view(goals, reformulators, *tables.shape[1:]) for one in mixed)


def chain(places: Places) -> Float[Tensor, "goal reformulator entity entity"]:
    """Weighted number of paths from i to j through the body places, left to right."""
    counts = places[0]
    for place in places[1:]:
        counts = counts @ place
    return counts


def without_own(
    counts: Float[Tensor, "goal reformulator entity entity"],
    attention: Float[Tensor, "goal reformulator place atom"],
    places: Places,
    asked: AskedFacts,
) -> Float[Tensor, "goal reformulator entity entity"]:
    """Takes the paths that use the asked fact itself out of that fact's count."""
    reformulator = torch.arange(counts.shape[1], device=counts.device)
    where = (asked.goal[:, None], reformulator[None, :], asked.subject[:, None], asked.object[:, None])
    counts = counts.index_put(where, -own_counts(attention, places, asked), accumulate=True)
    return counts.clamp(min=0)  # a difference of equal sums may be -1e-8


def own_attention(
    attention: Float[Tensor, "goal reformulator place atom"], asked: AskedFacts
) -> tuple[Float[Tensor, "fact reformulator place"], Float[Tensor, "fact reformulator place"]]:
    """How much of each body place is the asked fact, read from s to o and from o to s: both, where it is a loop."""
    forward = attention[asked.goal, :, :, asked.predicate]
    backward = attention[asked.goal, :, :, asked.predicate + attention.shape[-1] // 2]
    loop = (asked.subject == asked.object)[:, None, None]
    return forward + backward * loop, backward + forward * loop


def own_counts(
    attention: Float[Tensor, "goal reformulator place atom"], places: Places, asked: AskedFacts
) -> Float[Tensor, "fact reformulator"]:
    """Weighted number of paths from s to o that use the fact p(s, o) at least once.

    The fact adds forward[i] at (s, o) and backward[i] at (o, s) to the table of place i. What is counted is
    A₁A₂…[s, o] - (A₁-E₁)(A₂-E₂)…[s, o] with E_i those two cells; in a loop (s = o) they are one cell.
    """
    if len(places) > 3:
        return FirstUses(attention, places, asked).of_object()
    forward, backward = own_attention(attention, asked)
    goal, s, o, loop = asked.goal, asked.subject, asked.object, asked.subject == asked.object
    one = [place[goal, :, s, s] for place in places]  # loops at the subject, [fact, reformulator]
    if len(places) == 1:
        return forward[..., 0]
    first, last = forward[..., 0], forward[..., -1]
    if len(places) == 2:
        return first * places[1][goal, :, o, o] + last * one[0] - first * last * loop[:, None]
    across = [place[goal, :, s, o] for place in places]
    middle = backward[..., 1]  # a middle atom may go back from o to s
    once = (
        first * _returning(places[1], places[2])[goal, :, o]
        + forward[..., 1] * one[0] * places[2][goal, :, o, o]
        + middle * across[0] * across[2] * ~loop[:, None]
        + last * _returning(places[0], places[1])[goal, :, s]
    )
    twice = first * middle * across[2] + first * last * places[1][goal, :, o, s] + middle * last * across[0]
    return once - twice + first * middle * last


class FirstUses:
    """Paths from s that use the fact p(s, o), by the place where they first do: avoided before, anything after."""

    def __init__(
        self, attention: Float[Tensor, "goal reformulator place atom"], places: Places, asked: AskedFacts
    ) -> None:
        self._forward, backward = own_attention(attention, asked)
        # A loop is one cell, and forward has both.
        self._backward = backward * (asked.subject != asked.object)[:, None, None]
        self._asked, self._length, self._after = asked, len(places), PathCells(places, asked)
        self._at_s = [torch.ones_like(self._forward[..., 0])]  # paths that end there and have avoided the fact
        self._at_o = [torch.zeros_like(self._forward[..., 0])]
        for steps in range(1, self._length):
            avoiding = [
                self._after(0, steps, asked.subject, end) - self._to(steps, end)
                for end in (asked.subject, asked.object)
            ]
            self._at_s.append(avoiding[0])
            self._at_o.append(avoiding[1])

    def of_object(self) -> Float[Tensor, "fact reformulator"]:
        """The weighted number of those that end at o."""
        return self._to(self._length, self._asked.object)

    def of_anything(self) -> Float[Tensor, "fact reformulator"]:
        """The weighted number of those that end anywhere."""
        return self._first_used(self._length, self._after.anywhere)

    def _to(self, steps: int, end: Int[Tensor, " fact"]) -> Float[Tensor, "fact reformulator"]:
        return self._first_used(steps, lambda place, start: self._after(place, steps, start, end))

    def _first_used(
        self, steps: int, onward: Callable[[int, Int[Tensor, " fact"]], Float[Tensor, "fact reformulator"]]
    ) -> Float[Tensor, "fact reformulator"]:
        total = torch.zeros_like(self._forward[..., 0])
        for place in range(steps):
            out = self._at_s[place] * self._forward[..., place] * onward(place + 1, self._asked.object)
            back = self._at_o[place] * self._backward[..., place] * onward(place + 1, self._asked.subject)
            total = total + out + back
        return total


class PathCells:
    """Weighted numbers of paths through some of the places, between the entities of each fact."""

    def __init__(self, places: Places, asked: AskedFacts) -> None:
        self._places, self._goal = places, asked.goal
        self._chains: dict[tuple[int, int], Tensor] = {}

    def __call__(
        self, first: int, end: int, start: Int[Tensor, " fact"], stop: Int[Tensor, " fact"]
    ) -> Float[Tensor, "fact reformulators"]:
        """From `start` to `stop` through the places `first` … `end` - 1; without any, one way to stay."""
        if first == end:
            return (start == stop)[:, None].to(self._places[0].dtype)
        return self._chain(first, end)[self._goal, :, start, stop]

    def anywhere(self, first: int, start: Int[Tensor, " fact"]) -> Float[Tensor, "fact reformulators"]:
        """From `start` to anything through all places from `first` on."""
        if first == len(self._places):
            return self._places[0].new_ones(1)
        return self._chain(first, len(self._places)).sum(-1)[self._goal, :, start]

    def _chain(self, first: int, end: int) -> Float[Tensor, "goal reformulator entity entity"]:
        if end == first + 1:
            return self._places[first]
        if (first, end) not in self._chains:
            self._chains[first, end] = self._chain(first, end - 1) @ self._places[end - 1]
        return self._chains[first, end]


def _returning(
    one: Float[Tensor, "goal reformulator entity entity"], other: Float[Tensor, "goal reformulator entity entity"]
) -> Float[Tensor, "goal reformulator entity"]:
    """Weighted number of ways from each entity to itself in two steps."""
    return torch.einsum("pgiz,pgzi->pgi", one, other)
