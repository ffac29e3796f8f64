"""Rules worth weighing: the paths that join the entities of known facts, and what is said of either."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from ctp_core.config.rules import RulesConfig
from ctp_core.datasets.kb import FactIds
from ctp_core.provers.edge_list import EdgeList
from ctp_core.provers.evidence_arrays import provable_paths
from ctp_core.provers.rule_arrays import Body

UNARY_RULES = 20  # atoms that say what kind of thing X or Y is
PATHS_AT_ONCE = 64  # facts; bounds the memory of their paths


@dataclass(frozen=True)
class Mined:
    """A rule and how often each sampled fact is proved by it (its own fact left out): (fact, groundings)."""

    template: str
    body: Body
    facts: Int[np.ndarray, " found"]
    counts: Int[np.ndarray, " found"]


def mine_chains(edges: EdgeList, facts: FactIds, template: str, config: RulesConfig) -> list[Mined]:
    """The bodies that join most of the facts' entities."""
    length, atoms = int(template), 2 * edges.num_predicates
    rows: list[NDArray[np.int64]] = []
    for start in range(0, len(facts), PATHS_AT_ONCE):
        batch = facts[start : start + PATHS_AT_ONCE]
        paths = provable_paths(edges, batch, template)
        key = np.zeros(len(paths.pair), dtype=np.int64)
        for place in range(length):
            key = key * atoms + paths.atoms[:, place]
        found, counts = np.unique(np.stack([key, paths.pair + start]), axis=1, return_counts=True)
        rows.append(np.concatenate([found, counts[None]]))
    key, fact, count = np.concatenate(rows, axis=1)
    bodies, support = np.unique(key, return_counts=True)
    kept = np.argsort(-support, kind="stable")[: config.rules]
    kept = kept[support[kept] >= config.min_support]
    mined = []
    for body in bodies[kept].tolist():
        rows_of = np.flatnonzero(key == body)
        mined.append(Mined(template, _atoms(body, length, atoms), fact[rows_of], count[rows_of]))
    return mined


def _atoms(key: int, length: int, atoms: int) -> Body:
    body = []
    for _ in range(length):
        key, atom = divmod(key, atoms)
        body.append(atom)
    return tuple(reversed(body))


def mine_unary(edges: EdgeList, facts: FactIds, template: str) -> list[Mined]:
    """The atoms that are said of these entities far more often than of others."""
    column, own = (0, facts[0, 1]) if template == "1X" else (2, facts[0, 1] + edges.num_predicates)
    lifts = []
    for atom, table in enumerate(edges.counter.tables):
        degrees = np.diff(table.indptr)
        here = degrees[facts[:, column]] - (atom == own)  # the fact itself says nothing
        share, everywhere = (here > 0).mean(), (degrees > 0).mean()
        if share > 0:
            lifts.append((share * np.log(share / max(everywhere, 1e-9)), atom, here))
    lifts.sort(key=lambda one: (-one[0], one[1]))
    return [
        Mined(template, (atom,), np.flatnonzero(here > 0), here[here > 0])
        for lift, atom, here in lifts[:UNARY_RULES]
        if lift > 0
    ]
