"""The shapes that proofs of a bounded depth can have, when every rule is a path.

A rule proves p(X, Y) by a path of atoms from X to Y, and each atom by a fact or by another rule. Whatever the depth,
the result is one path of facts from X to Y. A plan is the tree of templates behind it; its leaves lie along the path.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from ctp_core.errors import ConfigError
from ctp_core.rules import Template

MAX_RULES = 4096  # chains of rules for one goal; each is searched separately


@dataclass(frozen=True)
class Plan:
    """Proves by a fact where `template` is None, else by a rule of that template whose body atoms follow `parts`."""

    template: Template | None = None
    parts: tuple["Plan", ...] = ()

    @cached_property
    def flips(self) -> tuple[bool, ...]:
        """For every leaf, from subject to object: whether its fact points against the path."""
        if self.template is None:
            return (False,)
        leaves = [flip for part in self.parts for flip in part.flips]
        return tuple(not flip for flip in reversed(leaves)) if self.template.reversed else tuple(leaves)

    def width(self, reformulators: Mapping[Template, int]) -> int:
        """The number of chains of rules with this shape."""
        if self.template is None:
            return 1
        return reformulators[self.template] * prod(part.width(reformulators) for part in self.parts)


FACT = Plan()


def plans(reformulators: Mapping[Template, int], depth: int, *, match_facts: bool) -> tuple[Plan, ...]:
    """Lists all shapes up to this depth, facts first; raises ConfigError where there are too many to search."""
    found: tuple[Plan, ...] = (FACT,)
    for level in range(1, depth + 1):
        _check(found, reformulators, level, depth)
        rules = [Plan(t, parts) for t in reformulators for parts in product(found, repeat=t.length)]
        found = (FACT, *rules)
    return found if match_facts else found[1:]


def _check(below: tuple[Plan, ...], reformulators: Mapping[Template, int], level: int, depth: int) -> None:
    widths = sum(plan.width(reformulators) for plan in below)
    chains = sum(count * widths**template.length for template, count in reformulators.items())
    if chains > MAX_RULES:
        raise ConfigError(
            f"at depth {level} of {depth}, these templates make {chains:,} chains of rules for every goal, but at most "
            f"{MAX_RULES:,} can be searched on a KB of facts: use fewer templates or less depth"
        )
