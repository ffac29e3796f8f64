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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from ctp_core.evidence.config import Counting
from ctp_core.evidence.saturation import SaturatedEvidence
from ctp_core.rules import Template

EXCLUDED = -1e9  # an attention logit whose softmax is exactly 0 in float32
INITIAL_WEIGHT = 0.0  # softplus(0) = 0.69: every reformulator starts as evidence worth following
LONG_BODY_HALF = 1.0  # of bodies of several atoms, and of those about one entity
INITIAL_BIAS = -3.0  # most pairs of entities are no facts


@dataclass(frozen=True)
class OwnFacts:
    """The facts asked for while training: fact i belongs to row goal[i] of the goals, and no body may use it."""

    goal: Int[Tensor, " fact"]
    predicate: Int[Tensor, " fact"]
    subject: Int[Tensor, " fact"]
    object: Int[Tensor, " fact"]


def half_count(template: Template, saturation: float | None) -> float | None:
    """k: the number of groundings that is half of all evidence; None where evidence is the number itself."""
    return saturation if template.direct else LONG_BODY_HALF


def saturate(count: Float[Tensor, "*shape"], half: float | None) -> Float[Tensor, "*shape"]:
    """h: how much evidence a weighted number of groundings is."""
    return count if half is None else count / (half + count)


def inverse_softplus(value: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The weight whose strength is `value`."""
    return value + torch.log(-torch.expm1(-value).clamp(max=-torch.finfo(value.dtype).tiny))


class EvidenceHead(nn.Module):
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
        own: OwnFacts | None = None,
    ) -> Float[Tensor, "goal entity entity"]:
        """The logit of every pair of entities for each goal predicate; `own` facts do not prove themselves."""
        num_entities = tables.shape[-1]
        loops = torch.eye(num_entities, device=tables.device)
        total = self.bias[goals, None, None] + self.loop_bias[goals, None, None] * loops
        for template in self.templates:
            attention, strength = self.attention(template, goals), self.strength(template, goals)
            if template.unary:
                total = total + unary_evidence(template, attention, strength, tables, own)
            else:
                half = half_count(template, self.saturation)
                by_share = self.counting == "share" and template.length > 1
                evidence = share_evidence if by_share else partial(chain_evidence, half=half)
                total = total + evidence(attention, strength, tables, own)
        return total

    def logits(
        self,
        tables: Float[Tensor, "atom entity entity"],
        goals: Int[Tensor, " goal"],
        own: OwnFacts | None = None,
    ) -> Float[Tensor, "goal entity entity"]:
        """`forward` under its own name, with types that survive `nn.Module.__call__`."""
        return self.forward(tables, goals, own)

    def sparsity(self, goals: Int[Tensor, " goal"]) -> Float[Tensor, ""]:
        """Σ_g softplus(w_pg) over the goals: what the L1 penalty weighs."""
        return torch.stack([self.strength(template, goals).sum() for template in self.templates]).sum()


def chain_evidence(
    attention: Float[Tensor, "goal reformulator place atom"],
    strength: Float[Tensor, "goal reformulator"],
    tables: Float[Tensor, "atom entity entity"],
    own: OwnFacts | None,
    half: float | None,
) -> Float[Tensor, "goal entity entity"]:
    """What the paths from one entity to the other add to the logit of each pair, by their number."""
    places = mix(attention, tables)
    counts = chain(places)
    if own is None:
        return torch.einsum("pg,pgij->pij", strength, saturate(counts, half))
    if half is None:
        return torch.einsum("pg,pgij->pij", strength, without_own(counts, attention, places, own))
    rows = (own.goal, own.subject, own.object)
    evidence: Tensor = SaturatedEvidence.apply(counts, strength, half, own_counts(attention, places, own), *rows)  # type: ignore[no-untyped-call]
    return evidence


def share_evidence(
    attention: Float[Tensor, "goal reformulator place atom"],
    strength: Float[Tensor, "goal reformulator"],
    tables: Float[Tensor, "atom entity entity"],
    own: OwnFacts | None,
) -> Float[Tensor, "goal entity entity"]:
    """The same by their share of all paths from the first entity."""
    places = mix(attention, tables)
    counts = chain(places)
    totals = counts.sum(-1)  # [goal, reformulator, subject]
    shares = counts / (1 + totals[..., None])
    if own is not None:
        uses = FirstUses(attention, places, own)
        reformulator = torch.arange(counts.shape[1], device=counts.device)
        rows = (own.goal[:, None], reformulator[None, :], own.subject[:, None])
        cells = (*rows, own.object[:, None])
        others = (counts[cells] - uses.of_object()).clamp(min=0)  # a difference of equal sums may be -1e-8
        shares = shares.index_put(cells, others / (1 + (totals[rows] - uses.of_anything()).clamp(min=0)))
    return torch.einsum("pg,pgij->pij", strength, shares)


def unary_evidence(
    template: Template,
    attention: Float[Tensor, "goal reformulator place atom"],
    strength: Float[Tensor, "goal reformulator"],
    tables: Float[Tensor, "atom entity entity"],
    own: OwnFacts | None,
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
    if own is None:
        return evidence
    forward, backward = own_attention(attention, own)
    entity, uses = (own.subject, forward[..., 0]) if about_subject else (own.object, backward[..., 0])
    others = (counts[own.goal, :, entity] - uses).clamp(min=0)  # [fact, reformulator]
    without = (strength[own.goal] * saturate(others, LONG_BODY_HALF)).sum(-1)
    return evidence.index_put((own.goal, own.subject, own.object), without)


Places = tuple[Float[Tensor, "goal reformulator entity entity"], ...]


def mix(
    attention: Float[Tensor, "goal reformulator place atom"], tables: Float[Tensor, "atom entity entity"]
) -> Places:
    """The table of each body place: the atoms' tables weighted by attention."""
    goals, reformulators, num_places, _ = attention.shape
    cells = tables.flatten(1)  # [atom, entity · entity]
    mixed = (attention[:, :, place].flatten(0, 1) @ cells for place in range(num_places))
    return tuple(one.view(goals, reformulators, *tables.shape[1:]) for one in mixed)


def chain(places: Places) -> Float[Tensor, "goal reformulator entity entity"]:
    """Weighted number of paths from i to j through the body places, left to right."""
    counts = places[0]
    for place in places[1:]:
        counts = counts @ place
    return counts


def without_own(
    counts: Float[Tensor, "goal reformulator entity entity"],
    attention: Float[Tensor, "goal reformulator place atom"],
    places: Places,
    own: OwnFacts,
) -> Float[Tensor, "goal reformulator entity entity"]:
    """Takes the paths that use the asked fact itself out of that fact's count."""
    reformulator = torch.arange(counts.shape[1], device=counts.device)
    where = (own.goal[:, None], reformulator[None, :], own.subject[:, None], own.object[:, None])
    counts = counts.index_put(where, -own_counts(attention, places, own), accumulate=True)
    return counts.clamp(min=0)  # a difference of equal sums may be -1e-8


def own_attention(
    attention: Float[Tensor, "goal reformulator place atom"], own: OwnFacts
) -> tuple[Float[Tensor, "fact reformulator place"], Float[Tensor, "fact reformulator place"]]:
    """How much of each body place is the asked fact, read from s to o and from o to s: both, where it is a loop."""
    forward = attention[own.goal, :, :, own.predicate]
    backward = attention[own.goal, :, :, own.predicate + attention.shape[-1] // 2]
    loop = (own.subject == own.object)[:, None, None]
    return forward + backward * loop, backward + forward * loop


def own_counts(
    attention: Float[Tensor, "goal reformulator place atom"], places: Places, own: OwnFacts
) -> Float[Tensor, "fact reformulator"]:
    """Weighted number of paths from s to o that use the fact p(s, o) at least once.

    The fact adds forward[i] at (s, o) and backward[i] at (o, s) to the table of place i. What is counted is
    A₁A₂…[s, o] - (A₁-E₁)(A₂-E₂)…[s, o] with E_i those two cells; in a loop (s = o) they are one cell.
    """
    if len(places) > 3:
        return FirstUses(attention, places, own).of_object()
    forward, backward = own_attention(attention, own)
    goal, s, o, loop = own.goal, own.subject, own.object, own.subject == own.object
    one = [place[goal, :, s, s] for place in places]  # loops at the subject, [fact, reformulator]
    if len(places) == 1:
        return forward[..., 0]
    first, last = forward[..., 0], forward[..., -1]
    if len(places) == 2:
        return first * places[1][goal, :, o, o] + last * one[0] - first * last * loop[:, None]
    across = [place[goal, :, s, o] for place in places]
    middle = backward[..., 1]  # a middle atom may go back from o to s
    once = (
        first * _returning(places[1], places[2])[goal, :, o]
        + forward[..., 1] * one[0] * places[2][goal, :, o, o]
        + middle * across[0] * across[2] * ~loop[:, None]
        + last * _returning(places[0], places[1])[goal, :, s]
    )
    twice = first * middle * across[2] + first * last * places[1][goal, :, o, s] + middle * last * across[0]
    return once - twice + first * middle * last


class FirstUses:
    """Paths from s that use the fact p(s, o), by the place where they first do: avoided before, anything after."""

    def __init__(self, attention: Float[Tensor, "goal reformulator place atom"], places: Places, own: OwnFacts) -> None:
        self._forward, backward = own_attention(attention, own)
        # A loop is one cell, and forward has both.
        self._backward = backward * (own.subject != own.object)[:, None, None]
        self._own, self._length, self._after = own, len(places), PathCells(places, own)
        self._at_s = [torch.ones_like(self._forward[..., 0])]  # paths that end there and have avoided the fact
        self._at_o = [torch.zeros_like(self._forward[..., 0])]
        for steps in range(1, self._length):
            avoiding = [
                self._after(0, steps, own.subject, end) - self._to(steps, end) for end in (own.subject, own.object)
            ]
            self._at_s.append(avoiding[0])
            self._at_o.append(avoiding[1])

    def of_object(self) -> Float[Tensor, "fact reformulator"]:
        """Those that end at o."""
        return self._to(self._length, self._own.object)

    def of_anything(self) -> Float[Tensor, "fact reformulator"]:
        """Wherever they end."""
        return self._first_used(self._length, self._after.anywhere)

    def _to(self, steps: int, end: Int[Tensor, " fact"]) -> Float[Tensor, "fact reformulator"]:
        return self._first_used(steps, lambda place, start: self._after(place, steps, start, end))

    def _first_used(
        self, steps: int, onward: Callable[[int, Int[Tensor, " fact"]], Float[Tensor, "fact reformulator"]]
    ) -> Float[Tensor, "fact reformulator"]:
        total = torch.zeros_like(self._forward[..., 0])
        for place in range(steps):
            out = self._at_s[place] * self._forward[..., place] * onward(place + 1, self._own.object)
            back = self._at_o[place] * self._backward[..., place] * onward(place + 1, self._own.subject)
            total = total + out + back
        return total


class PathCells:
    """Weighted numbers of paths through some of the places, between the entities of each fact."""

    def __init__(self, places: Places, own: OwnFacts) -> None:
        self._places, self._goal = places, own.goal
        self._chains: dict[tuple[int, int], Tensor] = {}

    def __call__(
        self, first: int, end: int, start: Int[Tensor, " fact"], stop: Int[Tensor, " fact"]
    ) -> Float[Tensor, "fact reformulators"]:
        """From `start` to `stop` through the places `first` … `end` - 1; without any, one way to stay."""
        if first == end:
            return (start == stop)[:, None].to(self._places[0].dtype)
        return self._chain(first, end)[self._goal, :, start, stop]

    def anywhere(self, first: int, start: Int[Tensor, " fact"]) -> Float[Tensor, "fact reformulators"]:
        """From `start` to anything through all places from `first` on."""
        if first == len(self._places):
            return self._places[0].new_ones(1)
        return self._chain(first, len(self._places)).sum(-1)[self._goal, :, start]

    def _chain(self, first: int, end: int) -> Float[Tensor, "goal reformulator entity entity"]:
        if end == first + 1:
            return self._places[first]
        if (first, end) not in self._chains:
            self._chains[first, end] = self._chain(first, end - 1) @ self._places[end - 1]
        return self._chains[first, end]


def _returning(
    one: Float[Tensor, "goal reformulator entity entity"], other: Float[Tensor, "goal reformulator entity entity"]
) -> Float[Tensor, "goal reformulator entity"]:
    """Weighted number of ways from each entity to itself in two steps."""
    return torch.einsum("pgiz,pgzi->pgi", one, other)
