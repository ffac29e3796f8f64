"""The best proofs by long bodies, looked for only where one may be among those that are wanted."""

import numpy as np
import pytest
import torch

from ctp_core.base.edges import EdgeList
from ctp_core.evidence import attention_arrays, attention_best
from ctp_core.evidence.attention_arrays import AttentionArrays
from ctp_core.evidence.attention_head import AttentionHead
from ctp_core.evidence.config import Counting
from ctp_core.evidence.merging import least_shares
from ctp_core.evidence.proofs import WeighedPaths
from ctp_core.rules import Template

NUM_ENTITIES, NUM_PREDICATES, WANTED = 9, 4, 3
LONG = Template(3)


def random_edges() -> EdgeList:
    choose = np.random.default_rng(0)
    columns = [choose.integers(0, high, 90) for high in (NUM_ENTITIES, NUM_PREDICATES, NUM_ENTITIES)]
    return EdgeList(np.unique(np.stack(columns, axis=1), axis=0), NUM_ENTITIES, NUM_PREDICATES)


def arrays_of(counting: Counting, long_weight: float) -> AttentionArrays:
    """Chains of one, two and three atoms; how much the longest ones count is given."""
    widths = {Template(1): 2, Template(2): 2, LONG: 2}
    head = AttentionHead(
        NUM_PREDICATES, widths, torch.Generator().manual_seed(0), torch.device("cpu"), 2.0, 1.0, counting
    )
    with torch.no_grad():
        head.weights[str(LONG)].fill_(long_weight)
    return AttentionArrays(head)


def best_shares(weighed: list[WeighedPaths], num_facts: int) -> np.ndarray:
    return np.stack([least_shares(weighed, num_facts, wanted) for wanted in range(1, WANTED + 1)])


@pytest.mark.parametrize("counting", ["number", "share"])
@pytest.mark.parametrize(("long_weight", "searched"), [(-6.0, False), (6.0, True)])
def test_the_best_proofs_are_the_same_whether_or_not_long_bodies_are_searched(
    counting: Counting, long_weight: float, searched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges, arrays = random_edges(), arrays_of(counting, long_weight)
    unknown = np.array([[subject, 0, object_] for subject in range(4) for object_ in range(4)])
    facts = np.concatenate([edges.facts[edges.facts[:, 1] == 0][:4], unknown])
    every = arrays.weigh(edges, facts)
    monkeypatch.setattr(attention_arrays, "MANY_WALKS", 200)
    monkeypatch.setattr(attention_best, "BEST_WALKS", 1e9)
    best = arrays.weigh(edges, facts, WANTED)
    assert best_shares(best, len(facts)) == pytest.approx(best_shares(every, len(facts)))
    long = next(paths for paths in best if paths.template == LONG)
    assert long.num_walked == 0
    assert bool(len(long.fact)) == searched


def test_a_long_body_is_searched_while_mined_rules_have_such_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    edges, arrays = random_edges(), arrays_of("share", -6.0)
    facts = np.array([[0, 0, 1], [0, 0, 2]])
    [of_long] = [paths for paths in arrays.weigh(edges, facts) if paths.template == LONG]
    mined = of_long.of(np.flatnonzero(of_long.shares > 0)[:1])
    mined.shares[:] = 1e-9
    monkeypatch.setattr(attention_arrays, "MANY_WALKS", 200)
    monkeypatch.setattr(attention_best, "BEST_WALKS", 1e9)
    [found] = [paths for paths in arrays.weigh(edges, facts, WANTED, [mined]) if paths.template == LONG]
    assert len(found.fact)
    assert found.exact is not None


def test_the_share_of_the_last_proof_wanted_is_zero_where_there_are_fewer() -> None:
    edges, arrays = random_edges(), arrays_of("number", 0.0)
    weighed = arrays.weigh(edges, np.array([[0, 0, 1]]))
    shares = np.sort(np.concatenate([paths.shares for paths in weighed]))[::-1]
    assert least_shares(weighed, 2, 2) == pytest.approx([shares[1], 0])
    assert not least_shares(weighed, 1, len(shares) + 1).any()
    assert not least_shares([], 3, 1).any()
