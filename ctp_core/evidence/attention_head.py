"""Evidence that adds up: the head that scores a fact by all of its proofs, on dense tables.

    logit(p, s, o) = b_p + [s = o] l_p + Σ_g softplus(w_pg) · h(c_g(s, o))

c_g is the number of groundings of reformulator g, each weighted by the product of its attentions; h(c) = c / (k + c)
with k = 1 for longer bodies, so that many detours never outweigh a direct hint without bound, and k = `saturation` for
one body atom, or h(c) = c without it: a small k makes a rule of *any* of the predicates that are attended to.
Counted by `share`, longer bodies add h(c) = c(s, o) / (1 + Σ_o' c(s, o')): one neighbour of one says more than two of
nine. A stated fact has the logit that it would have if it were not stated.
l_p says whether p holds of anything and itself: without it, sibling(X,Y) :- parent(Z,X), parent(Z,Y)
is refuted by everybody who is not their own sibling. Atoms are the predicates 0…P-1 and their inverses P…2P-1.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from ctp_core.evidence.attention_counts import AskedFacts, FirstUses, chain, mix, own_attention, own_counts, without_own
from ctp_core.evidence.config import Counting
from ctp_core.rules import Template

EXCLUDED = -1e9  # an attention logit whose softmax is exactly 0 in float32
INITIAL_WEIGHT = 0.0  # softplus(0) = 0.69: every reformulator starts as evidence worth following
LONG_BODY_HALF = 1.0  # of bodies of several atoms, and of those about one entity
INITIAL_BIAS = -3.0  # most pairs of entities are not facts


def half_count(template: Template, saturation: float | None) -> float | None:
    """k: the number of groundings that is half of all evidence; None where evidence is the number itself."""
    return saturation if template.direct else LONG_BODY_HALF


def saturate(count: Float[Tensor, "*shape"], half: float | None) -> Float[Tensor, "*shape"]:
    """h: how much evidence a weighted number of groundings is."""
    return count if half is None else count / (half + count)


def inverse_softplus(value: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The weight whose strength is `value`."""
    return value + torch.log(-torch.expm1(-value).clamp(max=-torch.finfo(value.dtype).tiny))


class AttentionHead(nn.Module):
    """Attention, weights and biases of every predicate; knows nothing of the facts."""

    def __init__(
        self,
        num_predicates: int,
        templates: Mapping[Template, int],
        generator: torch.Generator,
        device: torch.device,
        scale: float = 1.0,
        saturation: float | None = None,
        counting: Counting = "number",
    ) -> None:
        super().__init__()
        self.num_predicates, self.saturation, self.counting = num_predicates, saturation, counting
        self.templates = dict(sorted(templates.items()))
        self.attention_logits, self.weights = nn.ParameterDict(), nn.ParameterDict()
        for template, width in self.templates.items():
            shape = (num_predicates, width, template.length, 2 * num_predicates)
            logits = scale * torch.randn(shape, generator=generator)
            self.attention_logits[str(template)] = nn.Parameter(logits.to(device))
            self.weights[str(template)] = nn.Parameter(
                torch.full((num_predicates, width), INITIAL_WEIGHT, device=device)
            )
        self.bias = nn.Parameter(torch.full((num_predicates,), INITIAL_BIAS, device=device))
        self.loop_bias = nn.Parameter(torch.zeros(num_predicates, device=device))

    def attention(
        self, template: Template, goals: Int[Tensor, " goal"]
    ) -> Float[Tensor, "goal reformulator place atom"]:
        """Softmax over all atoms; only the identity p(X,Y) :- p(X,Y) is left out, never its inverse."""
        logits = self.attention_logits[str(template)][goals]
        if template.direct:
            identity = functional.one_hot(goals, 2 * self.num_predicates).bool()
            logits = logits.masked_fill(identity[:, None, None, :], EXCLUDED)
        attention: Tensor = logits.softmax(-1)
        return attention

    def strength(self, template: Template, goals: Int[Tensor, " goal"]) -> Float[Tensor, "goal reformulator"]:
        return functional.softplus(self.weights[str(template)][goals])

    def forward(
        self,
        tables: Float[Tensor, "atom entity entity"],
        goals: Int[Tensor, " goal"],
        asked: AskedFacts | None = None,
    ) -> Float[Tensor, "goal entity entity"]:
        """The logit of every pair of entities for each goal predicate; `own` facts do not prove themselves."""
        num_entities = tables.shape[-1]
        loops = torch.eye(num_entities, device=tables.device)
        total = self.bias[goals, None, None] + self.loop_bias[goals, None, None] * loops
        for template in self.templates:
            attention, strength = self.attention(template, goals), self.strength(template, goals)
            if template.unary:
                total = total + unary_evidence(template, attention, strength, tables, asked)
            else:
                half = half_count(template, self.saturation)
                by_share = self.counting == "share" and template.length > 1
                evidence = share_evidence if by_share else partial(chain_evidence, half=half)
                total = total + evidence(attention, strength, tables, asked)
        return total

    def logits(
        self,
        tables: Float[Tensor, "atom entity entity"],
        goals: Int[Tensor, " goal"],
        asked: AskedFacts | None = None,
    ) -> Float[Tensor, "goal entity entity"]:
        """`forward` under its own name, with types that survive `nn.Module.__call__`."""
        return self.forward(tables, goals, asked)

    def sparsity(self, goals: Int[Tensor, " goal"]) -> Float[Tensor, ""]:
        """Σ_g softplus(w_pg) over the goals: what the L1 penalty weighs."""
        return torch.stack([self.strength(template, goals).sum() for template in self.templates]).sum()


def chain_evidence(
    attention: Float[Tensor, "goal reformulator place atom"],
    strength: Float[Tensor, "goal reformulator"],
    tables: Float[Tensor, "atom entity entity"],
    asked: AskedFacts | None,
    half: float | None,
) -> Float[Tensor, "goal entity entity"]:
    """What the paths from one entity to the other add to the logit of each pair, by their number."""
    places = mix(attention, tables)
    counts = chain(places)
    if asked is None:
        return torch.einsum("pg,pgij->pij", strength, saturate(counts, half))
    if half is None:
        return torch.einsum("pg,pgij->pij", strength, without_own(counts, attention, places, asked))
    rows = (asked.goal, asked.subject, asked.object)
    evidence: Tensor = SaturatedEvidence.apply(counts, strength, half, own_counts(attention, places, asked), *rows)  # type: ignore[no-untyped-call]
    return evidence


def share_evidence(
    attention: Float[Tensor, "goal reformulator place atom"],
    strength: Float[Tensor, "goal reformulator"],
    tables: Float[Tensor, "atom entity entity"],
    asked: AskedFacts | None,
) -> Float[Tensor, "goal entity entity"]:
    """What the paths from one entity to the other add to each logit, by their share of all paths from the first."""
    places = mix(attention, tables)
    counts = chain(places)
    totals = counts.sum(-1)  # [goal, reformulator, subject]
    shares = counts / (1 + totals[..., None])
    if asked is not None:
        uses = FirstUses(attention, places, asked)
        reformulator = torch.arange(counts.shape[1], device=counts.device)
        rows = (asked.goal[:, None], reformulator[None, :], asked.subject[:, None])
        cells = (*rows, asked.object[:, None])
        others = (counts[cells] - uses.of_object()).clamp(min=0)  # a difference of equal sums may be -1e-8
        shares = shares.index_put(cells, others / (1 + (totals[rows] - uses.of_anything()).clamp(min=0)))
    return torch.einsum("pg,pgij->pij", strength, shares)


def unary_evidence(
    template: Template,
    attention: Float[Tensor, "goal reformulator place atom"],
    strength: Float[Tensor, "goal reformulator"],
    tables: Float[Tensor, "atom entity entity"],
    asked: AskedFacts | None,
) -> Float[Tensor, "goal entity entity"]:
    """What the facts of one entity of a pair add to its logit; the same for all pairs of that entity."""
    counts = attention[:, :, 0] @ tables.sum(2)  # [goal, reformulator, entity]
    evidence = torch.einsum("pg,pgi->pi", strength, saturate(counts, LONG_BODY_HALF))
    about_subject = template.about_subject
    num_entities = tables.shape[-1]
    if about_subject:
        evidence = evidence[:, :, None].expand(-1, -1, num_entities)
    else:
        evidence = evidence[:, None, :].expand(-1, num_entities, -1)
    if asked is None:
        return evidence
    forward, backward = own_attention(attention, asked)
    entity, uses = (asked.subject, forward[..., 0]) if about_subject else (asked.object, backward[..., 0])
    others = (counts[asked.goal, :, entity] - uses).clamp(min=0)  # [fact, reformulator]
    without = (strength[asked.goal] * saturate(others, LONG_BODY_HALF)).sum(-1)
    return evidence.index_put((asked.goal, asked.subject, asked.object), without)


class SaturatedEvidence(torch.autograd.Function):
    """Σ_g strength_g · h(c_g) with h(c) = c / (half + c), c_g without what a fact says of itself.

    The gradient in c is strength · (1 - h)² / half: only h is kept, and half of the passes over it are saved.
    """

    @staticmethod
    def forward(
        ctx: Any,
        counts: Float[Tensor, "goal reformulator entity entity"],
        strength: Float[Tensor, "goal reformulator"],
        half: float,
        own_counts: Float[Tensor, "fact reformulator"],
        goal: Int[Tensor, " fact"],
        subject: Int[Tensor, " fact"],
        object_: Int[Tensor, " fact"],
    ) -> Float[Tensor, "goal entity entity"]:
        cells = _cells(counts.shape[1], goal, subject, object_)
        others = counts[cells] - own_counts
        saturated = counts + half
        torch.div(counts, saturated, out=saturated)
        kept = others.clamp(min=0)  # a difference of equal sums may be -1e-8
        saturated[cells] = kept / (half + kept)
        ctx.half = half
        ctx.save_for_backward(saturated, strength, others > 0, goal, subject, object_)
        total = torch.bmm(strength[:, None], saturated.flatten(2))  # [goal, 1, entity · entity]
        return total.view(len(strength), *counts.shape[2:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        saturated, strength, positive, goal, subject, object_ = ctx.saved_tensors
        gradient = gradients[0]
        of_strength = torch.bmm(saturated.flatten(2), gradient.flatten(1)[:, :, None])[..., 0]
        of_counts = 1 - saturated
        of_counts.square_().mul_(gradient[:, None]).mul_(strength[:, :, None, None] / ctx.half)
        cells = _cells(strength.shape[1], goal, subject, object_)
        at_cells = of_counts[cells] * positive
        of_counts[cells] = at_cells
        return of_counts, of_strength, None, -at_cells, None, None, None


def _cells(reformulators: int, goal: Tensor, subject: Tensor, object_: Tensor) -> tuple[Tensor, ...]:
    """Index of [fact, reformulator] in a table [goal, reformulator, entity, entity]; cells are distinct."""
    every = torch.arange(reformulators, device=goal.device)[None, :]
    return goal[:, None], every, subject[:, None], object_[:, None]
