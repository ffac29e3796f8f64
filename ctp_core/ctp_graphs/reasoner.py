"""Scores many graphs at once with a theory and one of the two provers, for training, answers and benchmarks."""

import copy
import math
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import nn

from ctp_core.aggregations import Best
from ctp_core.base.graphs_model import GraphScorer
from ctp_core.ctp_graphs import exact, tabled
from ctp_core.ctp_graphs.batches import Instance, LayeredBatch, SteppedBatch
from ctp_core.ctp_graphs.config import CtpGraphsConfig
from ctp_core.ctp_graphs.members import Members, merge, theories_of
from ctp_core.ctp_graphs.theory import FixedRule, Theory
from ctp_core.errors import ConfigError
from ctp_core.kb.isomorphism import CanonicalGraph
from ctp_core.kernels import ExponentialKernel
from ctp_core.prolog_rules import parse_rule
from ctp_core.rules import Template
from ctp_core.select.base import SelectOptions
from ctp_core.select.registry import select_class
from ctp_core.shapes import Float, Tensor
from ctp_core.symbols import Vocabulary
from ctp_core.tnorm.base import TNorm
from ctp_core.tnorm.registry import TNORMS

MAX_EXACT_DEPTH = 4  # as deep as the paper's experiments; sub-goals grow exponentially with depth
DEEPEST_ASKED = 2 * MAX_EXACT_DEPTH  # even where a question asks for more
MAX_TABLED_CELLS = 1 << 26  # rules × predicates²: 512 MB of doubles for each body place
MAX_EXACT_CELLS = 1 << 25  # numbers in one table of the recursion: 256 MB of doubles, a few tables at a time

Batch = SteppedBatch | LayeredBatch


def build_theory(config: CtpGraphsConfig, predicates: Vocabulary, generator: torch.Generator) -> nn.Module:
    """A fresh theory on the generator's device, or as many as the config wants members, each with its own start.

    Raises UnknownSymbol for an unknown predicate in a given rule.
    """
    if config.theories == 1:
        return _build_member(config, predicates, generator)
    return Members(_build_member(config, predicates, generator) for _ in range(config.theories))


def _build_member(config: CtpGraphsConfig, predicates: Vocabulary, generator: torch.Generator) -> Theory:
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
    return Theory(len(predicates), select_class(config.select)(options, generator), fixed, generator)


class GraphReasoner(GraphScorer):
    """A theory, or several members, with the prover of its config. Training and answering use the same prover."""

    def __init__(
        self, config: CtpGraphsConfig, predicates: Vocabulary, targets: Sequence[str], module: nn.Module
    ) -> None:
        self.config, self.predicates, self.targets, self.module = config, predicates, tuple(targets), module
        self.theories = theories_of(module)
        self._check_size()
        theory = self.theory
        self.tnorm = TNORMS[config.semiring]
        self.best = Best(self.tnorm)
        self.tabled = tabled.TabledProver(theory.templates)
        self.exact = exact.ExactProver(theory.templates)
        self.target_ids = torch.tensor([predicates.id(name) for name in self.targets], device=self.device)

    @property
    def theory(self) -> Theory:
        """The first member: the only one of the exact prover."""
        return self.theories[0]

    def _check_size(self) -> None:
        """Raises ConfigError where the closed theories would not fit into memory."""
        each, count = sum(self.theory.select.groups.values()) + len(self.theory.fixed), len(self.predicates)
        rules = each * len(self.theories)
        if self.config.prover == "tabled" and rules * count**2 > MAX_TABLED_CELLS:
            raise ConfigError(
                f"{rules} rules over {count:,} predicates are too many for the tables of prover tabled: use fewer "
                "templates and rules, or prover exact"
            )

    def instance(self, graph: CanonicalGraph) -> Instance:
        return Instance.of(graph, self.predicates)

    def afresh(self) -> "GraphReasoner":
        fresh = GraphReasoner(self.config, self.predicates, self.targets, self.module)
        if self._frozen and self.config.prover == "tabled":
            fresh._answering = self._answering  # part of the model, and not remembered of a batch
        return fresh

    def stack(self, instances: Sequence[Instance], depth: int | None) -> Batch:
        if self.config.prover == "tabled":
            return self.tabled.stack(instances, depth, self.device)
        longest = max(len(instance.shape.edges) for instance in instances)
        return self.exact.stack(instances, self.exact_depth(longest) if depth is None else depth, self.device)

    def training_scores(self, batch: Batch) -> list[Float[Tensor, "query target"]]:
        """Differentiable scores of each member, relaxed as the config says."""
        if isinstance(batch, LayeredBatch):
            return [self._exact_scores(batch)]
        relaxed = tabled.TRAINING if self.config.relaxed else tabled.Aggregations.answering(self.tnorm)
        members = [self._close((theory,), relaxed.rules.tnorm) for theory in self.theories]
        return [self._tabled_scores(batch, closed, relaxed) for closed in members]

    @torch.no_grad()
    def scores(self, batch: Batch) -> Float[Tensor, "query target"]:
        """Scores as in answers, without gradient."""
        if isinstance(batch, LayeredBatch):
            return self._exact_scores(batch)
        closed = self._answering if self._frozen else self._close(self.theories, self.tnorm)
        return self._tabled_scores(batch, closed, tabled.Aggregations.answering(self.tnorm))

    def _tabled_scores(
        self, batch: SteppedBatch, closed: tabled.TabledTheory, aggregations: tabled.Aggregations
    ) -> Float[Tensor, "query target"]:
        return tabled.prove(batch, closed, aggregations)[:, self.target_ids]

    def _exact_scores(self, batch: LayeredBatch) -> Float[Tensor, "query target"]:
        goals = self.theory.vectors[self.target_ids]
        levels = exact.grow(self.theory, goals, len(batch.layers) - 1, self.best)
        return exact.prove(batch, levels, self.best)

    @property
    def _frozen(self) -> bool:
        """Whether training is over, so that what was closed once stays so."""
        return not any(parameter.requires_grad for parameter in self.module.parameters())

    @cached_property
    @torch.no_grad()
    def _answering(self) -> tabled.TabledTheory:
        """`closed` in the precision of the weights, which is enough for scores without proofs."""
        return self._close(self.theories, self.tnorm)

    def exact_depth(self, num_edges: int) -> int:
        """One more than a balanced chain of that many facts needs, at most MAX_EXACT_DEPTH.

        At the least depth every chain must be cut into halves, which often mean nothing by themselves.
        """
        longest = max((template.length for template in self.theory.templates), default=1)
        needed = num_edges if longest == 1 else math.ceil(math.log(max(2, num_edges), longest) - 1e-9)
        return max(1, min(MAX_EXACT_DEPTH, needed + 1))

    @property
    def attention(self) -> bool:
        return self.theory.select.attends

    def _close(self, theories: Sequence[Theory], tnorm: TNorm) -> tabled.TabledTheory:
        return merge([tabled.close(theory, tnorm, self.attention) for theory in theories], tnorm)

    @cached_property
    def settled(self) -> Theory:
        """A copy for the exact prover's answers, in double precision, so that a score equals that of its proof."""
        return copy.deepcopy(self.theory).double()

    @cached_property
    @torch.no_grad()
    def closed(self) -> tabled.TabledTheory:
        """What the tabled prover answers with, in double precision as well."""
        return self._close([copy.deepcopy(theory).double() for theory in self.theories], self.tnorm)
