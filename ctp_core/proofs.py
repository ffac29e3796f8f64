"""Proof trees: what a score rests on, in a form that can be checked by hand.

Tuples rather than dataclasses: an answer has hundreds of them, and making them is a good part of its time.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from ctp_core.rules import Rule, is_constant
from ctp_core.symbols import Fact


class Unification(NamedTuple):
    """Two names that met, and how well; `approximate` where `left` is the name nearest to a generated vector."""

    left: str
    right: str
    score: float
    approximate: bool = False


class ProofNode(NamedTuple):
    """One goal and how it was proved: score = ⊗ of the unifications and of the children's scores.

    The children of a rule are the goals of its body, in the order of its atoms.
    """

    goal: Fact
    score: float
    by: Literal["fact", "rule"]
    unifications: tuple[Unification, ...] = ()
    rule: Rule | None = None
    fact: Fact | None = None
    children: tuple["ProofNode", ...] = ()

    @property
    def bindings(self) -> dict[str, str] | None:
        """What each variable of the rule stands for: X and Y, then those along the path; None where a fact proves."""
        if self.rule is None:
            return None
        goals = (self.goal, *(child.goal for child in self.children))
        found: dict[str, str] = {}
        for atom, goal in zip((self.rule.head, *self.rule.body.atoms), goals, strict=True):
            found[atom.subject], found[atom.object] = goal.subject, goal.object
        return {argument: entity for argument, entity in found.items() if not is_constant(argument)}

    def leaves(self) -> Iterator["ProofNode"]:
        if self.by == "fact":
            yield self
        for child in self.children:
            yield from child.leaves()


class Proof(NamedTuple):
    """A proof of an answer; `share` is its part of the logit in models that add evidence, else None."""

    tree: ProofNode
    share: float | None = None

    @property
    def score(self) -> float:
        return self.tree.score

    @property
    def facts(self) -> tuple[Fact, ...]:
        return tuple(leaf.fact for leaf in self.tree.leaves() if leaf.fact is not None)

    @property
    def text(self) -> str:
        """`grandparent(rick, morty) ⇐ parent(rick, beth), parent(beth, morty)`."""
        return f"{self.tree.goal} ⇐ {', '.join(map(str, self.facts))}"
