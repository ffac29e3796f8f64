"""Writes derivations of either prover as proof trees that people can check."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctp_core.ctp_graphs.exact import Level
from ctp_core.ctp_graphs.search import Derivation
from ctp_core.ctp_graphs.tabled_proofs import ByFact, ByRule
from ctp_core.proofs import ProofNode, Unification
from ctp_core.rules import SURE, Body, Rule
from ctp_core.symbols import Fact, Vocabulary
from ctp_core.tnorm.base import TNorm

GATE = "gate"  # the name of a rule's own weight among the unifications of a node

Pair = tuple[int, int]
Place = Callable[[Any], Pair]
Name = Callable[[Any], tuple[str, float]]


@dataclass(frozen=True)
class ProofWriter:
    """`place` finds the entities of a goal, `name` the known predicate nearest to it and how near that is.

    `attention` says that body places attend to known predicates, so their names are not approximate. `listed` maps the
    texts of the model's rules to their confidences, so that a rule shows the same one everywhere.
    """

    predicates: Vocabulary
    entities: tuple[str, ...]
    tnorm: TNorm
    place: Place
    name: Name
    attention: bool = False
    listed: Mapping[str, float] = field(default_factory=dict)

    def write(self, derivation: Derivation) -> ProofNode:
        """Writes children first, without recursion: a chain of a thousand facts is a tree a thousand levels deep."""
        order, stack = [], [derivation]
        while stack:
            node = stack.pop()
            order.append(node)
            stack.extend(node.children)
        written: dict[int, ProofNode] = {}
        for node in reversed(order):
            written[id(node)] = self._node(node, tuple(written[id(child)] for child in node.children))
        return written[id(derivation)]

    def _node(self, derivation: Derivation, children: tuple[ProofNode, ...]) -> ProofNode:
        note = derivation.move.note
        if isinstance(note, ByFact):
            return self._leaf(derivation, self.predicates.names[note.predicate])
        goal, approximate = self._goal(derivation.goal)
        body = tuple(child.goal.predicate for child in children)
        unifications = self._unifications(derivation, goal.predicate, body)
        guess = approximate or self._guessed(derivation)
        score = self.tnorm.of([*(u.score for u in unifications), *(child.score for child in children)])
        path = Body.of(note.template, body)
        rule = Rule(goal.predicate, path, self._confidence(derivation), approximate=guess)
        rule = replace(rule, confidence=self.listed.get(rule.text, rule.confidence))
        head, of_body = unifications[: note.guarded], unifications[note.guarded :]
        shown = (*head, *note.template.along(of_body))
        return ProofNode(goal, score, "rule", shown, rule=rule, children=note.template.along(children))

    def _leaf(self, derivation: Derivation, stated: str) -> ProofNode:
        goal, approximate = self._goal(derivation.goal)
        [score] = derivation.move.scores
        fact = Fact(goal.subject, stated, goal.object)
        return ProofNode(goal, score, "fact", (Unification(goal.predicate, stated, score, approximate),), fact=fact)

    def _goal(self, goal: Any) -> tuple[Fact, bool]:
        subject, object_ = self.place(goal)
        name, near = self.name(goal)
        return Fact(self.entities[subject], name, self.entities[object_]), near < SURE

    def _unifications(self, derivation: Derivation, head: str, body: tuple[str, ...]) -> tuple[Unification, ...]:
        scores, note = derivation.move.scores, derivation.move.note
        guarded = note.guarded
        found = [Unification(head, GATE, scores[0])] if guarded else []
        if isinstance(note, ByRule):
            names = self.predicates.names
            found += [
                Unification(names[nearest], name, score, approximate=not self.attention and near < SURE)
                for (nearest, near), name, score in zip(note.generated, body, scores[guarded:], strict=True)
            ]
        return tuple(found)

    def _guessed(self, derivation: Derivation) -> bool:
        """Whether the generated body differs from the one that the rule names."""
        note, scores = derivation.move.note, derivation.move.scores
        if isinstance(note, ByRule):
            return not self.attention and min(scores[note.guarded :]) < SURE
        return min(self._nearness(derivation)) < SURE

    def _confidence(self, derivation: Derivation) -> float:
        """⊗ of the gate and of how near the generated body is to the one that the rule names."""
        scores = derivation.move.scores
        own = scores if isinstance(derivation.move.note, ByRule) else (*scores, *self._nearness(derivation))
        return self.tnorm.of(own) if own else 1.0

    def _nearness(self, derivation: Derivation) -> list[float]:
        return [self.name(child.goal)[1] for child in derivation.children]


def tabled_names(pairs: NDArray[np.int64], predicates: Vocabulary) -> tuple[Place, Name]:
    """`place` and `name` of a ProofWriter for goals of the tabled prover."""
    listed = [(int(a), int(b)) for a, b in pairs]
    return lambda goal: listed[goal.row], lambda goal: (predicates.names[goal.predicate], 1.0)


def exact_names(
    pairs: Sequence[NDArray[np.int64]], levels: Sequence[Level], predicates: Vocabulary
) -> tuple[Place, Name]:
    """`place` and `name` for goals of the exact prover: a generated predicate gets the nearest known name."""
    nearest = [level.meets.max(dim=0) for level in levels]

    def place(goal: Any) -> Pair:
        subject, object_ = pairs[goal.level][goal.row]
        return int(subject), int(object_)

    def name(goal: Any) -> tuple[str, float]:
        best = nearest[goal.level]
        return predicates.names[int(best.indices[goal.column])], float(best.values[goal.column])

    return place, name
