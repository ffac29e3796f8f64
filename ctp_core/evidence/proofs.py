"""Which proofs of an answer are listed, in which order, and how they add up to its score.

What the public methods `proofs` and `rules` show, and a hybrid of either for its part of proofs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from ctp_core.base.chains import chain_proof
from ctp_core.base.edges import EdgeList, Paths
from ctp_core.base.facts_model import Explanation, FactsView
from ctp_core.kb.knowledge_base import FactIds
from ctp_core.proofs import Proof
from ctp_core.rules import Body, Rule, Template, steps_of
from ctp_core.symbols import Fact

RuleOf = Callable[[int, Template, tuple[int, ...]], Rule]  # (predicate, template, body) -> the rule as people read it
Floats = Float[np.ndarray, " fact"]
NO_IDS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class WeighedPaths:
    """Groundings of one template for given facts, with what each adds to the logit of its fact.

    A path with share 0 is not a proof: it uses the fact itself, or no reformulator attends to it.
    """

    template: Template
    fact: Int[np.ndarray, " path"]  # in rising order
    atoms: Int[np.ndarray, "path place"]
    stations: Int[np.ndarray, "path place+1"]  # the entities along the body atoms
    shares: Float[np.ndarray, " path"]
    factors: Sequence[Float[np.ndarray, "path reformulator"]]  # for each place, the attention to the path's atom
    weights: Float[np.ndarray, "fact reformulator"]  # share = weights · product of the factors
    num_walked: int  # only the groundings of so many facts, the first ones, are here: those of all are too many
    bodies: list[tuple[int, ...]] | None = None  # what names the rule of each path, where its atoms do not
    exact: NDArray[np.bool_] | None = None  # the paths of which a mined rule says more than attention does

    def of(self, chosen: Int[np.ndarray, " chosen"]) -> "WeighedPaths":
        """Some of the paths."""
        return replace(
            self,
            **{name: getattr(self, name)[chosen] for name in ("fact", "atoms", "stations", "shares")},
            factors=[factor[chosen] for factor in self.factors],
            bodies=None if self.bodies is None else [self.bodies[path] for path in chosen.tolist()],
            exact=None if self.exact is None else self.exact[chosen],
        )

    def body(self, path: int) -> tuple[int, ...]:
        return tuple(self.atoms[path].tolist()) if self.bodies is None else self.bodies[path]

    def attentions(self, path: int) -> tuple[float, ...]:
        """The attention to each atom of a path, by the reformulator that contributes most to its share.

        A mined rule gives each of its atoms an attention of 1.
        """
        if self.exact is not None and self.exact[path]:
            return (1.0,) * len(self.factors)
        factors = [factor[path] for factor in self.factors]
        best = math.prod(factors, start=self.weights[self.fact[path]]).argmax()
        return tuple(float(factor[best]) for factor in factors)


class _Candidate(NamedTuple):
    """A proof before its tree is built: ties are many, trees are dear."""

    share: float
    facts: tuple[Fact, ...]
    paths: WeighedPaths
    path: int

    def order(self) -> tuple[float, int, str]:
        """The largest share first, then fewer facts, then by text.

        Decides among candidates only: `_candidates` and, where proofs are many, `attention_best` have cut the rest by
        share, so a change here lists no others.
        """
        return -self.share, len(self.facts), ", ".join(map(str, self.facts))


def list_proofs(
    view: FactsView, facts: FactIds, weighed: Sequence[WeighedPaths], num_proofs: int, rule_of: RuleOf
) -> list[tuple[Proof, ...]]:
    """The best proofs of each fact in order, at most `num_proofs`."""
    starts = [np.searchsorted(paths.fact, np.arange(len(facts) + 1)) for paths in weighed]
    found = []
    for row, goal in enumerate(facts.tolist()):
        slices = [slice(bounds[row], bounds[row + 1]) for bounds in starts]
        candidates = _candidates(view, weighed, slices, num_proofs)
        best = sorted(candidates, key=_Candidate.order)[:num_proofs]
        found.append(tuple(_proof(view, goal, one, rule_of) for one in best))
    return found


def _candidates(
    view: FactsView, weighed: Sequence[WeighedPaths], slices: Sequence[slice], wanted: int
) -> list[_Candidate]:
    """All proofs with at least the share of the last one wanted; ties are settled by `order`."""
    parts = list(zip(weighed, slices, strict=True))
    least = _nth_largest(np.concatenate([np.zeros(0), *(paths.shares[part] for paths, part in parts)]), wanted)
    return [
        _Candidate(float(paths.shares[path]), _body(view, paths, path), paths, path)
        for paths, part in parts
        for path in (part.start + np.flatnonzero(paths.shares[part] >= least)).tolist()
    ]


def _nth_largest(shares: NDArray[np.float64], wanted: int) -> float:
    """The share of the last proof wanted, always above 0: a path that adds nothing is not a proof."""
    least = float(np.nextafter(0, 1))
    if len(shares) <= wanted:
        return least
    return max(least, float(np.partition(shares, len(shares) - wanted)[len(shares) - wanted]))


def _body(view: FactsView, paths: WeighedPaths, path: int) -> tuple[Fact, ...]:
    stations = tuple(view.entities.names[entity] for entity in paths.stations[path].tolist())
    return Body(steps_of(view.predicates.names, paths.atoms[path].tolist())).facts(stations)


def _proof(view: FactsView, goal: list[int], one: _Candidate, rule_of: RuleOf) -> Proof:
    rule = rule_of(goal[1], one.paths.template, one.paths.body(one.path))
    return Proof(chain_proof(view.fact(*goal), rule, one.facts, one.paths.attentions(one.path)), one.share)


def count_proofs(weighed: Sequence[WeighedPaths], num_facts: int) -> list[int | None]:
    """The number of proofs of each fact; None where not all paths were walked."""
    proving = np.concatenate([NO_IDS, *(paths.fact[paths.shares > 0] for paths in weighed)])
    walked = min((paths.num_walked for paths in weighed), default=num_facts)
    return [*np.bincount(proving, minlength=num_facts)[:walked].tolist(), *[None] * (num_facts - walked)]


def explained(
    logits: Floats, biases: Floats, counts: Sequence[int | None], proofs: Sequence[tuple[Proof, ...]]
) -> list[Explanation]:
    """logit = bias + what the proofs that are shown add + the rest; the bias holds what is said of one entity alone."""
    explanations = []
    for logit, bias, count, found in zip(logits.tolist(), biases.tolist(), counts, proofs, strict=True):
        shown = sum(proof.share or 0.0 for proof in found)
        parts = {"bias": bias, "shown": shown, "rest": logit - bias - shown, "num_proofs": count}
        explanations.append(Explanation(found, parts))
    return explanations


def unexplained(logits: Floats, biases: Floats) -> list[Explanation]:
    """The parts of the score when no proofs are asked for, so that none need to be counted."""
    rows = zip(biases.tolist(), (logits - biases).tolist(), strict=True)
    return [Explanation((), {"bias": bias, "shown": 0.0, "rest": rest, "num_proofs": None}) for bias, rest in rows]


def own_paths(edges: EdgeList, facts: FactIds, paths: Paths) -> Int[np.ndarray, " own"]:
    """Indices of the paths that use the fact they should prove. Few have its predicate, which is checked first."""
    predicate = np.where(edges.states(facts), facts[:, 1], -1)[paths.pair]
    inverse = np.where(predicate < 0, -1, predicate + edges.num_predicates)
    suspect = np.zeros(len(predicate), dtype=bool)
    for atom in paths.atoms.T:
        suspect |= (atom == predicate) | (atom == inverse)
    rows = np.flatnonzero(suspect)
    return rows[uses_own(Paths(*(column[rows] for column in paths)), facts, edges.num_predicates)]


def uses_own(paths: Paths, facts: FactIds, num_predicates: int) -> NDArray[np.bool_]:
    """Tells which paths use the fact they should prove, forwards or as its inverse."""
    subject, predicate, object_ = (column[:, None] for column in facts[paths.pair].T)
    left, right = paths.stations[:, :-1], paths.stations[:, 1:]
    forward = (paths.atoms == predicate) & (left == subject) & (right == object_)
    backward = (paths.atoms == predicate + num_predicates) & (left == object_) & (right == subject)
    return np.asarray((forward | backward).any(1))
