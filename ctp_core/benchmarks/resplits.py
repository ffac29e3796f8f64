"""New splits of a benchmark's training and validation facts, for choosing settings without the test facts."""

from pathlib import Path

import numpy as np

from ctp_core.benchmarks.data import (
    LOCATED_IN,
    countries_regions,
    countries_tested,
    countries_training,
    read_benchmark,
    withheld_regions,
)
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.symbols import Fact


def read_resplit(folder: Path, dataset: str, number: int) -> FactsKB:
    """Deals training and validation facts anew, in splits of the published sizes; has no published test fact."""
    if dataset.startswith("countries"):
        return _resplit_countries(folder, dataset, number)
    kb = read_benchmark(folder, dataset)
    facts = np.concatenate([kb.splits["train"], kb.splits["valid"]])
    order = np.random.default_rng(number).permutation(len(facts))
    sizes = (len(kb.splits["test"]), len(kb.splits["valid"]))
    test, valid, train = np.split(order, np.cumsum(sizes))
    dealt = {"train": train, "valid": valid, "test": test}
    return FactsKB(kb.entities, kb.predicates, {split: facts[np.sort(rows)] for split, rows in dealt.items()})


def _resplit_countries(folder: Path, dataset: str, number: int) -> FactsKB:
    """Withholds other countries in the way of S1, S2 or S3; the locations of test countries stay withheld.

    The chosen countries lose their region, in S2 and S3 their subregion too; in S3 their neighbours also lose their
    region.
    """
    regions, tested = set(countries_regions(folder)), countries_tested(folder)
    published = countries_training(folder, "countries-s1")
    known = {*published, *withheld_regions(published, sorted(regions))}
    known -= {fact for fact in known if fact.predicate == LOCATED_IN and fact.subject in tested}
    chosen = _choose(known, regions, 2 * len(tested), number)
    withheld = {fact for fact in known if _withheld(fact, set(chosen), regions, dataset)}
    if dataset.endswith("s3"):
        near = {fact.subject for fact in known if fact.predicate != LOCATED_IN and fact.object in chosen}
        withheld |= {fact for fact in known if fact.subject in near and fact.object in regions}
    asked = sorted(fact for fact in withheld if fact.subject in chosen and fact.object in regions)
    return FactsKB.from_facts(
        {
            "train": sorted(known - withheld),
            "valid": [fact for fact in asked if fact.subject in chosen[len(tested) :]],
            "test": [fact for fact in asked if fact.subject in chosen[: len(tested)]],
        }
    )


def _choose(known: set[Fact], regions: set[str], wanted: int, number: int) -> list[str]:
    """Countries that have a neighbour and whose region is known, in random order."""
    bordering = {fact.subject for fact in known if fact.predicate != LOCATED_IN}
    placed = {fact.subject for fact in known if fact.object in regions}
    return [str(name) for name in np.random.default_rng(number).permutation(sorted(bordering & placed))[:wanted]]


def _withheld(fact: Fact, chosen: set[str], regions: set[str], dataset: str) -> bool:
    if fact.predicate != LOCATED_IN or fact.subject not in chosen:
        return False
    return fact.object in regions or not dataset.endswith("s1")
