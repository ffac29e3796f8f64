"""Following edges: all of them where they are few, an even sample where they are many."""

import numpy as np
import torch

from ctp_core.frontier.graph import ANSWERING, Graph

CPU = torch.device("cpu")
HUB = np.array([(0, 0, leaf) for leaf in range(1, 101)] + [(0, 1, 1), (1, 1, 2)])


def graph() -> Graph:
    return Graph(HUB, 101, 2, CPU)


def ids(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers)


def test_an_entity_leads_along_its_facts_and_against_them() -> None:
    made = graph()
    edges = made.follow(ids(0), ids(1), 100, ANSWERING)
    found = {(int(made.atom[edge]), int(made.head[edge])) for edge in edges.edge}
    assert found == {(2, 0), (3, 0), (1, 2)}  # predicates 0 and 1, and 2 and 3 against them
    assert made.fact[edges.edge].unique().numel() == 3


def test_a_hub_keeps_an_even_sample_and_others_keep_all() -> None:
    made = graph()
    edges = made.follow(ids(0, 0), ids(0, 1), 20, ANSWERING)
    by_node = torch.bincount(edges.source)
    assert by_node.tolist() == [17, 3]
    assert len(set(edges.edge.tolist())) == 20
    steps = edges.edge[:17].diff()
    assert int(steps.max()) - int(steps.min()) <= 1


def test_what_a_question_follows_does_not_depend_on_the_others() -> None:
    made = graph()
    alone = made.follow(ids(0, 0), ids(0, 1), 20, ANSWERING)
    together = made.follow(ids(0, 0, 1, 1), ids(1, 2, 0, 1), 20, ANSWERING)
    assert together.edge[together.source >= 2].tolist() == alone.edge.tolist()


def test_the_phase_moves_the_sample_within_the_edges_of_its_entity() -> None:
    made = graph()
    for phase in (0.0, 0.3, 0.999, 1.0):
        edges = made.follow(ids(0), ids(0), 20, phase)
        assert len(edges.edge) == 20
        assert made.tail[edges.edge].unique().tolist() == [0]


def test_more_entities_than_edges_leave_one_edge_for_each() -> None:
    made = graph()
    entities = torch.arange(50)
    edges = made.follow(torch.zeros_like(entities), entities, 10, ANSWERING)
    assert torch.bincount(edges.source).tolist() == [1] * 50


def test_an_entity_without_facts_leads_nowhere() -> None:
    edges = Graph(HUB[:1], 5, 2, CPU).follow(ids(0), ids(4), 10, ANSWERING)
    assert len(edges.edge) == 0


def test_how_common_an_answer_is_counts_stated_facts() -> None:
    made = graph()
    assert made.common(ids(2, 0, 1, 3), ids(0, 5, 1, 100)).tolist() == [100, 1, 1, 0]
    table = made.commonness(ids(2, 1))
    assert torch.allclose(table[0, 0], torch.log1p(torch.tensor(100.0)))
    assert int((table > 0).sum()) == 3
