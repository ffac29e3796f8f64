"""Rules read off proofs: paths that explain stated facts again and again, each counted over the KB."""

from collections import defaultdict
from dataclasses import replace

import numpy as np

from ctp_core.artifact import Artifact
from ctp_core.base.progress import OnPart, unheard
from ctp_core.base.rule_counts import Counts, FactsCounter
from ctp_core.confidence import confidence_of
from ctp_core.errors import ArtifactError
from ctp_core.frontier.answering import Answering
from ctp_core.frontier.cost import EXPLAINED
from ctp_core.frontier.proofs import measure
from ctp_core.kb.knowledge_base import FactIds
from ctp_core.rules import Body, Rule, Template, by_what_they_explain, steps_of

AT_ONCE = 20
PROOFS = 2  # read of each
LEAST_SHARE = 0.05  # a path that moves the logit by less says little
MOST = 300  # rules that are counted: those whose paths explain most
QUICK_STARTS, QUICK_PATHS = 200, 1e5  # of a rule that a proof cites and that is not listed: a question waits for it

Key = tuple[int, tuple[int, ...]]  # (predicate, atoms)


class RuleBook:
    """The rules of one model on one KB; what was counted is kept."""

    def __init__(self, answering: Answering, counts: dict[Key, Counts] | None = None) -> None:
        self._answering = answering
        self.counts: dict[Key, Counts] = {} if counts is None else counts
        self._quick: dict[Key, Counts] = {}

    def rule(self, predicate: int, atoms: tuple[int, ...]) -> Rule:
        """A rule that a proof cites."""
        key = (predicate, atoms)
        if key not in self.counts and key not in self._quick:
            self._quick[key] = self._counter(quick=True).count_atoms(predicate, Template(len(atoms)), atoms)
        return self._rule(key, self.counts[key] if key in self.counts else self._quick[key])

    def decoded(self, slopes: np.ndarray, on_part: OnPart = unheard) -> list[Rule]:
        """The rules behind the strongest proofs of a sample of facts; a weight is the mean share of such a proof."""
        shares = self._shares()
        most = sorted(shares, key=lambda key: (-sum(shares[key]), key))[:MOST]
        counter, listed = self._counter(quick=False), []
        for number, key in enumerate(most, 1):
            if key not in self.counts:
                self.counts[key] = counter.count_atoms(key[0], Template(len(key[1])), key[1])
            rule = self._rule(key, self.counts[key])
            if rule.support:
                weight = float(slopes[key[0]] * np.mean(shares[key]))
                listed.append(replace(rule, weight=weight))
            on_part(number, len(most))
        return by_what_they_explain(listed)

    def _shares(self) -> dict[Key, list[float]]:
        """What each path added to the logits of the facts that it proves."""
        facts, found = self._sample(), defaultdict(list)
        for start in range(0, len(facts), AT_ONCE):
            some = facts[start : start + AT_ONCE]
            logits = self._answering.scores(some)
            for fact, paths in zip(some.tolist(), measure(self._answering, some, logits, PROOFS), strict=True):
                for one in paths:
                    if one.share >= LEAST_SHARE:
                        found[fact[1], one.path.atoms].append(one.share)
        return found

    def _sample(self) -> FactIds:
        """As many facts of each predicate, as far as it has them; always the same ones."""
        facts = self._answering.view.edges.facts
        order = np.random.default_rng(0).permutation(len(facts))
        order = order[np.argsort(facts[order, 1], kind="stable")]
        starts = np.searchsorted(facts[order, 1], facts[order, 1])
        turn = np.arange(len(order)) - starts  # the first fact of every predicate, then the second of every one, …
        return facts[order[np.argsort(turn, kind="stable")][:EXPLAINED]]

    def _rule(self, key: Key, counts: Counts) -> Rule:
        names = self._answering.view.predicates.names
        rule = Rule(names[key[0]], Body(steps_of(names, key[1])), confidence_of(*counts))
        precision = counts.support / counts.pairs if counts.pairs else None
        return replace(rule, support=counts.support, precision=precision)

    def _counter(self, *, quick: bool) -> FactsCounter:
        view = self._answering.view
        bounds = {"starts": QUICK_STARTS, "paths": QUICK_PATHS} if quick else {}
        return FactsCounter(view.edges, view.predicates, **bounds)  # type: ignore[arg-type]


def read_counts(artifact: Artifact) -> dict[Key, Counts]:
    """The counts of rules that an artifact stores; raises ArtifactError."""
    try:
        return {
            (int(head), tuple(map(int, atoms))): Counts(int(support), int(pairs))
            for head, atoms, support, pairs in artifact.manifest.get("rule_counts", [])
        }
    except (TypeError, ValueError) as error:
        raise ArtifactError(f"the artifact has counts of rules that cannot be read: {error}") from None
