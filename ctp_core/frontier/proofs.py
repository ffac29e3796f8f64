"""Proofs of answers: the strongest paths, each with what the answer's logit loses where the facts of the path are gone.

What a proof is for is thus measured, not read off an attention. What the shown proofs do not explain is `rest`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ctp_core.base.chains import chain_proof
from ctp_core.base.facts_model import Explanation
from ctp_core.frontier.answering import NO_IDS, Answering
from ctp_core.frontier.paths import BEAM, Path, strongest
from ctp_core.kb.knowledge_base import FactIds
from ctp_core.proofs import Proof
from ctp_core.rules import Body, Rule, steps_of
from ctp_core.symbols import Fact

RuleOf = Callable[[int, tuple[int, ...]], Rule]  # (predicate, atoms) -> the rule as people read it
MORE = 1  # paths from either side that are measured beyond those wanted
LEAST_SHARE = 1e-4  # a proof without which the logit stays as it is explains nothing


class Measured(NamedTuple):
    """A path and what the logit of its answer loses without it."""

    path: Path
    share: float


def measure(
    answering: Answering, facts: FactIds, logits: Float[np.ndarray, " fact"], most: int
) -> list[list[Measured]]:
    """At most so many paths of each fact, that with the largest share first.

    Where none of the strongest paths is missed, because others say the same, weaker ones are measured too.
    """
    found = _measured(answering, facts, logits, most + MORE)
    unexplained = np.array([row for row, paths in enumerate(found) if not paths], dtype=np.int64)
    if len(unexplained):
        again = _measured(answering, facts[unexplained], logits[unexplained], BEAM)
        for row, paths in zip(unexplained.tolist(), again, strict=True):
            found[row] = paths
    return [paths[:most] for paths in found]


def _measured(
    answering: Answering, facts: FactIds, logits: Float[np.ndarray, " fact"], most: int
) -> list[list[Measured]]:
    """The paths of each fact without which its logit falls, among the strongest ones; the largest share comes first."""
    candidates = _candidates(answering, facts, most)
    which = np.repeat(np.arange(len(facts)), [len(paths) for paths in candidates])
    if not len(which):
        return [[] for _ in facts]
    every = [path for paths in candidates for path in paths]
    removed = [path.facts(answering.graph.num_predicates) for path in every]
    items = np.repeat(np.arange(len(every)), [len(rows) for rows in removed])
    rows = np.array([row for rows in removed for row in rows], dtype=np.int64).reshape(-1, 3)
    shares = logits[which] - answering.without(facts, which, items, rows)
    found: list[list[Measured]] = [[] for _ in facts]
    for fact, path, share in zip(which.tolist(), every, shares.tolist(), strict=True):
        if share >= LEAST_SHARE:
            found[fact].append(Measured(path, share))
    names = answering.view.entities.names
    for paths in found:
        paths.sort(key=lambda one: (-one.share, len(one.path.atoms), [names[entity] for entity in one.path.stations]))
    return found


def _candidates(answering: Answering, facts: FactIds, most: int) -> list[list[Path]]:
    """The strongest paths of each fact, from its subject to its object, that either side found."""
    which, predicates = np.arange(len(facts)), answering.graph.num_predicates
    found: list[dict[tuple[tuple[int, ...], tuple[int, ...]], Path]] = [{} for _ in facts]
    both = strongest(answering.graph, answering.replayed(facts, which, NO_IDS, facts[:0]), 2 * len(facts))
    for item, one in enumerate(both):
        fact, from_object = item % len(facts), item >= len(facts)
        for path in one[:most]:
            turned = path.turned(predicates) if from_object else path
            found[fact].setdefault((turned.atoms, turned.stations), turned)
    return [list(paths.values()) for paths in found]


def explanations(
    answering: Answering, facts: FactIds, logits: Float[np.ndarray, " fact"], num_proofs: int, rule_of: RuleOf
) -> list[Explanation]:
    """logit = bias + what the proofs that are shown add + the rest of what the network adds."""
    biases = answering.bases(facts)
    measured: Sequence[list[Measured]] = [[] for _ in facts]
    if num_proofs > 0:
        measured = measure(answering, facts, logits, num_proofs)
    found = []
    for goal, logit, bias, paths in zip(facts.tolist(), logits.tolist(), biases.tolist(), measured, strict=True):
        proofs = tuple(_proof(answering, goal, one, rule_of) for one in paths)
        shown = sum(one.share for one in paths)
        parts = {"bias": bias, "shown": shown, "rest": logit - bias - shown, "num_proofs": None}
        found.append(Explanation(proofs, parts))
    return found


def _proof(answering: Answering, goal: list[int], one: Measured, rule_of: RuleOf) -> Proof:
    view, path = answering.view, one.path
    facts: tuple[Fact, ...] = Body(steps_of(view.predicates.names, path.atoms)).facts(
        tuple(view.entities.names[entity] for entity in path.stations)
    )
    rule = rule_of(goal[1], path.atoms)
    return Proof(chain_proof(view.fact(*goal), rule, facts, path.weights), one.share)
