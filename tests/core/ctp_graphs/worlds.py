"""Small random theories and graphs for the tests of the provers."""

import random
from typing import Any

import torch

from ctp_core.ctp_graphs.batches import Instance
from ctp_core.ctp_graphs.theory import FixedRule, Theory
from ctp_core.kb.isomorphism import CanonicalGraph
from ctp_core.kernels import ExponentialKernel
from ctp_core.rules import Template
from ctp_core.select.base import SelectOptions
from ctp_core.select.registry import select_class
from ctp_core.symbols import Vocabulary

CPU = torch.device("cpu")
DIM, PREDICATES = 4, 3
NAMES = Vocabulary("predicate", [f"p{i}" for i in range(PREDICATES)])


def theory(select: str, templates: str, seed: int = 0, fixed: tuple[FixedRule, ...] = (), **options: Any) -> Theory:
    """In double precision, so that only real differences are seen."""
    generator = torch.Generator(device=CPU).manual_seed(seed)
    shapes = tuple(map(Template.parse, templates.split()))
    made = SelectOptions(shapes, DIM, PREDICATES, ExponentialKernel(0.5), memory=4, top_k=2, **options)
    return Theory(PREDICATES, select_class(select)(made, generator), fixed, generator).double()


def edges(num_entities: int, count: int, seed: int) -> list[tuple[int, int, int]]:
    rng = random.Random(seed)
    found: set[tuple[int, int, int]] = set()
    while len(found) < count:
        found.add((rng.randrange(num_entities), rng.randrange(PREDICATES), rng.randrange(num_entities)))
    return sorted(found)


def instance(facts: list[tuple[int, int, int]], num_entities: int) -> Instance:
    """Every pair is asked for."""
    graph = CanonicalGraph(num_entities, tuple((s, NAMES.names[p], o) for s, p, o in facts), (0, 0))
    return Instance.of(graph, NAMES, tuple((i, j) for i in range(num_entities) for j in range(num_entities)))
