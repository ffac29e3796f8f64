"""Scores many graphs at once with a theory and one of the two provers, for training, answers and benchmarks."""

import copy
import math
from collections.abc import Sequence
from functools import cached_property

import torch

from ctp_core.aggregations import Best
from ctp_core.base.graphs_model import GraphScorer
from ctp_core.ctp_graphs import exact, tabled
from ctp_core.ctp_graphs.batches import Instance, LayeredBatch, SteppedBatch
from ctp_core.ctp_graphs.config import CtpGraphsConfig
from ctp_core.ctp_graphs.theory import FixedRule, Theory
from ctp_core.errors import ConfigError
from ctp_core.kb.isomorphism import CanonicalGraph
from ctp_core.kernels import ExponentialKernel
from ctp_core.prolog_rules import parse_rule
from ctp_core.rules import Template
from ctp_core.select.base import SelectOptions
from ctp_core.select.registry import SELECTS
from ctp_core.shapes import Float, Tensor
from ctp_core.symbols import Vocabulary
from ctp_core.tnorm.registry import TNORMS

MAX_EXACT_DEPTH = 4  # as deep as the paper's experiments; sub-goals grow exponentially with depth
DEEPEST_ASKED = 2 * MAX_EXACT_DEPTH  # even where a question asks for more
MAX_TABLED_CELLS = 1 << 26  # rules × predicates²: 512 MB of doubles for each body place
MAX_EXACT_CELLS = 1 << 25  # numbers in one table of the recursion: 256 MB of doubles, a few tables at a time

Batch = SteppedBatch | LayeredBatch


def build_theory(config: CtpGraphsConfig, predicates: Vocabulary, generator: torch.Generator) -> Theory:
    """Fresh parameters on the generator's device; raises UnknownSymbol for an unknown predicate in a given rule."""
    options = SelectOptions(
        tuple(map(Template.parse, config.templates)),
        config.dim,
        len(predicates),
        ExponentialKernel(config.slope),
        head=config.head,
        gate=config.gate,
        memory=config.memory,
        memory_start=config.memory_start,
        top_k=config.top_k,
    )
    fixed = [FixedRule.of(parse_rule(text), predicates) for text in config.rules]
    return Theory(len(predicates), SELECTS[config.select](options, generator), fixed, generator)


class GraphReasoner(GraphScorer):
    """A theory with the prover of its config. Training and answering use the same prover."""

    def __init__(self, config: CtpGraphsConfig, predicates: Vocabulary, targets: Sequence[str], theory: Theory) -> None:
        self.config, self.predicates, self.targets, self.theory = config, predicates, tuple(targets), theory
        self.module = theory
        self._check_size()
        self.tnorm = TNORMS[config.semiring]
        self.best = Best(self.tnorm)
        self.tabled = tabled.TabledProver(theory.templates)
        self.exact = exact.ExactProver(theory.templates)
        self.target_ids = torch.tensor([predicates.id(name) for name in self.targets], device=self.device)

    def _check_size(self) -> None:
        """Raises ConfigError where the closed theory would not fit into memory."""
        rules, count = sum(self.theory.select.groups.values()) + len(self.theory.fixed), len(self.predicates)
        if self.config.prover == "tabled" and rules * count**2 > MAX_TABLED_CELLS:
            raise ConfigError(
                f"{rules} rules over {count:,} predicates are too many for the tables of prover tabled: use fewer "
                "templates and rules, or prover exact"
            )

    def instance(self, graph: CanonicalGraph) -> Instance:
        return Instance.of(graph, self.predicates)

    def afresh(self) -> "GraphReasoner":
        return GraphReasoner(self.config, self.predicates, self.targets, self.theory)

    def stack(self, instances: Sequence[Instance], depth: int | None) -> Batch:
        if self.config.prover == "tabled":
            return self.tabled.stack(instances, depth, self.device)
        longest = max(len(instance.shape.edges) for instance in instances)
        return self.exact.stack(instances, self.exact_depth(longest) if depth is None else depth, self.device)

    def training_scores(self, batch: Batch) -> Float[Tensor, "query target"]:
        """Differentiable scores, relaxed as the config says."""
        relaxed = tabled.TRAINING if self.config.relaxed else tabled.Aggregations.answering(self.tnorm)
        return self._scores(batch, relaxed)

    @torch.no_grad()
    def scores(self, batch: Batch) -> Float[Tensor, "query target"]:
        """Scores as in answers, without gradient."""
        return self._scores(batch, tabled.Aggregations.answering(self.tnorm))

    def _scores(self, batch: Batch, aggregations: tabled.Aggregations) -> Float[Tensor, "query target"]:
        if isinstance(batch, SteppedBatch):
            closed = tabled.close(self.theory, aggregations.rules.tnorm, self.attention)
            return tabled.prove(batch, closed, aggregations)[:, self.target_ids]
        goals = self.theory.vectors[self.target_ids]
        levels = exact.grow(self.theory, goals, len(batch.layers) - 1, self.best)
        return exact.prove(batch, levels, self.best)

    def exact_depth(self, num_edges: int) -> int:
        """One more than a balanced chain of that many facts needs, at most MAX_EXACT_DEPTH.

        At the least depth every chain must be cut into halves, which often mean nothing by themselves.
        """
        longest = max((template.length for template in self.theory.templates), default=1)
        needed = num_edges if longest == 1 else math.ceil(math.log(max(2, num_edges), longest) - 1e-9)
        return max(1, min(MAX_EXACT_DEPTH, needed + 1))

    @property
    def attention(self) -> bool:
        return self.config.select == "attentive"

    @cached_property
    def settled(self) -> Theory:
        """A copy for answers, in double precision, so that a score equals the score of its proof."""
        return copy.deepcopy(self.theory).double()

    @cached_property
    @torch.no_grad()
    def closed(self) -> tabled.TabledTheory:
        return tabled.close(self.settled, self.tnorm, self.attention)
