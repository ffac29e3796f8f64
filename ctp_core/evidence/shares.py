"""How much attention, mined rules and rules with constants count beside each other: chosen on validation facts.

    logit = attention · A + mined · F + constants · C

Of settings that rank as well as the best, the simplest is taken, so that a part that brings nothing is dropped. The
shares of a predicate are shrunk towards those that suit all.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch.nn import functional

from ctp_core.base.evaluation import ASKED, as_good, at_once, known_filters, realistic_ranks
from ctp_core.base.goals import GoalIds
from ctp_core.base.shrinkage import shrunk_choices
from ctp_core.evidence.attention_head import AttentionHead, inverse_softplus
from ctp_core.evidence.proofs_model import ProofsModel
from ctp_core.evidence.rules_arrays import RuleTable
from ctp_core.kb.knowledge_base import FactIds

Floats = Float[np.ndarray, " predicate"]


class Share(NamedTuple):
    """What each part is multiplied by; that of rules with constants is on top of their own weight."""

    attention: float
    mined: float
    constants: float


TIMES = (0.25, 0.5, 1.0, 2.0)
# The simplest first: one part alone, then attention with something else.
SHARES = (
    Share(1, 0, 0),
    Share(0, 1, 1),
    *(Share(1, 0, constants) for constants in TIMES),
    *(Share(1, mined, 0) for mined in TIMES),
    *(Share(1, mined, mined * constants) for mined in TIMES for constants in TIMES),
)


@dataclass(frozen=True)
class Shares:
    """The share of each part, for each predicate."""

    attention: Floats
    mined: Floats
    constants: Floats

    @classmethod
    def of(cls, chosen: list[Share]) -> "Shares":
        return cls(*np.array(chosen, dtype=np.float64).reshape(-1, 3).T)

    def of_head(self, head: AttentionHead) -> AttentionHead | None:
        """The head at its share of the logits; None where that is nothing."""
        if not self.attention.any() or (self.attention == 1).all():
            return head if self.attention.any() else None
        times = torch.from_numpy(self.attention).to(head.bias)
        with torch.no_grad():
            for name in head.weights:
                head.weights[name].copy_(inverse_softplus(functional.softplus(head.weights[name]) * times[:, None]))
            head.bias.mul_(times)
            head.loop_bias.mul_(times)
        return head

    def of_table(self, table: RuleTable) -> RuleTable | None:
        """The mined rules at their share of the logits; None where that is nothing."""
        constants = table.constants * self.constants
        if not self.mined.any() and not constants.any():
            return None
        weight, bias = table.weight * self.mined[table.head], table.bias * self.mined
        kept = weight > 0
        columns = {name: getattr(table, name)[kept] for name in ("head", "template", "body")}
        return replace(table, **columns, weight=weight[kept], bias=bias, constants=constants)


def choose_shares(model: ProofsModel, facts: FactIds) -> Shares:
    """The shares under which a model that has all parts ranks these facts best; attention alone without facts."""
    num_predicates = len(model.kb.predicates)
    if not len(facts):
        return Shares.of([SHARES[0]] * num_predicates)
    ranks = np.stack([_reciprocal_ranks(model, facts, way) for way in range(2)], 1)  # [share, way, fact]
    best = ranks[int(ranks.mean((1, 2)).argmax())].ravel()
    common = next(index for index, found in enumerate(ranks) if as_good(found.ravel(), best))
    chosen = shrunk_choices(ranks, facts[:, 1], num_predicates, common)
    return Shares.of([SHARES[index] for index in chosen.tolist()])


def _reciprocal_ranks(model: ProofsModel, facts: FactIds, way: int) -> Float[np.ndarray, "share fact"]:
    """Under every share; what each part says is computed once."""
    ranks, edges = np.zeros((len(SHARES), len(facts))), model.kb_view.edges
    known, batch = known_filters(model.kb, "valid")[way], at_once(len(model.kb.entities))
    attention = ProofsModel(model.config, model.kb, model.head, model.offsets)
    mined = model.mined
    assert mined is not None
    for predicate in np.unique(facts[:, 1]).tolist():
        whole = np.flatnonzero(facts[:, 1] == predicate)
        for rows in np.array_split(whole, 1 + len(whole) // batch):
            given, true = facts[rows, 2 * way], facts[rows, 2 - 2 * way]
            goals = GoalIds.hiding(facts[rows], ASKED[way], for_ranking=True)
            mask = known.mask(given, facts[rows, 1])
            chains = mined.chain_rows(edges, predicate, given, forward=not way)
            constants = mined.weighed_constants(edges, predicate, given, forward=not way)
            attended = attention.kb_logits(goals)
            for found, share in zip(ranks, SHARES, strict=True):
                logits = share.attention * attended + share.mined * chains + share.constants * constants
                found[rows] = 1 / realistic_ranks(logits, true, mask)
    return ranks
