"""Reads link-prediction benchmarks, published or of your own, as they are or split anew without the test facts."""

import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np

from ctp_core.errors import DataError
from ctp_core.kb.formats.tsv import read_tsv
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.symbols import Fact

LOCATED_IN = "locatedIn"
COUNTRIES = ("countries-s1", "countries-s2", "countries-s3")
NAMES = {"train": ("train",), "valid": ("valid", "dev"), "test": ("test",)}  # of the files of a split
ENDINGS = (".tsv", ".txt")
Splits = dict[str, list[Fact]]


def read_benchmark(folder: Path, dataset: str) -> FactsKB:
    """Reads a data set from its folder in `folder`; raises DataError where there is none or a file is missing.

    Any folder with files train, valid (or dev) and test of three columns is a data set, valid may be missing.
    """
    return FactsKB.from_facts(benchmark_facts(folder, dataset))


def benchmark_facts(folder: Path, dataset: str) -> Splits:
    """The facts of each split; raises DataError as `read_benchmark` does."""
    if dataset not in READERS and not (folder / dataset).is_dir():
        raise DataError(
            f"data set {dataset!r} is unknown; choose from {', '.join(READERS)}, or a folder in {folder} that has "
            "files train, valid and test (.tsv or .txt)"
        )
    try:
        return READERS.get(dataset, _read_folder)(folder, dataset)
    except OSError as error:
        raise DataError(f"data set {dataset!r} cannot be read from {folder}: {error}") from None


def countries_regions(folder: Path) -> list[str]:
    """The five regions that are ranked for each country."""
    return _lines(folder / "countries" / "regions.txt")


def countries_tested(folder: Path) -> set[str]:
    """The countries whose regions are asked for."""
    return set(_lines(folder / "countries" / "test.txt"))


def countries_training(folder: Path, dataset: str) -> list[Fact]:
    """The training file of countries-s1, -s2 or -s3."""
    return _facts(folder / "countries" / f"countries_{dataset[-2:].upper()}.tsv")


def _read_folder(folder: Path, dataset: str) -> Splits:
    found = {split: _file_of(folder / dataset, split) for split in NAMES}
    missing = [split for split, file in found.items() if file is None and split != "valid"]
    if missing:
        detail = f"{folder / dataset} has no file {missing[0]}.tsv or {missing[0]}.txt"
        raise DataError(f"data set {dataset!r} cannot be read from {folder}: {detail}")
    return {split: _facts(file) for split, file in found.items() if file is not None}


def _file_of(folder: Path, split: str) -> Path | None:
    files = (folder / f"{name}{ending}" for name in NAMES[split] for ending in ENDINGS)
    return next((file for file in files if file.is_file()), None)


def _read_archive(folder: Path, dataset: str) -> Splits:
    splits = {}
    with tarfile.open(folder / dataset / f"{dataset}.tar.gz") as archive:
        for split in ("train", "valid", "test"):
            member = archive.extractfile(f"{split}.txt")
            if member is None:
                raise DataError(f"{dataset}.tar.gz has no file {split}.txt")
            splits[split] = list(read_tsv(BytesIO(member.read()), f"{split}.txt"))
    return splits


def _read_countries(folder: Path, dataset: str) -> Splits:
    """Test and validation facts are the withheld regions of countries, which S1 tells through the subregions.

    The published dev.txt is not used: 13 of its 24 countries have their region in the training file and 7 are test
    countries. Instead, validation asks about the other countries that are withheld in the same way as the test
    countries.
    """
    train, test = countries_training(folder, dataset), countries_tested(folder)
    truth = withheld_regions(countries_training(folder, "countries-s1"), countries_regions(folder))
    return {
        "train": train,
        "valid": [fact for fact in truth if fact.subject not in test and fact not in set(train)],
        "test": [fact for fact in truth if fact.subject in test],
    }


def withheld_regions(facts: list[Fact], regions: list[str]) -> list[Fact]:
    """locatedIn(country, region) for every country whose subregion is known in S1 and whose region is not."""
    located = {fact for fact in facts if fact.predicate == LOCATED_IN}
    parts = {fact.subject: fact.object for fact in located if fact.object in regions}
    within = [fact for fact in located if fact.object not in regions and fact.object in parts]
    withheld = {Fact(fact.subject, LOCATED_IN, parts[fact.object]) for fact in within} - located
    return sorted(fact for fact in withheld if fact.subject not in regions)


def _facts(path: Path) -> list[Fact]:
    with path.open("rb") as stream:
        return list(read_tsv(stream, path.name))


def _lines(path: Path) -> list[str]:
    return path.read_text().split()


def read_resplit(folder: Path, dataset: str, number: int) -> FactsKB:
    """Deals training and validation facts anew, in splits of the published sizes; has no published test fact."""
    if dataset in COUNTRIES:
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


READERS: dict[str, Callable[[Path, str], Splits]] = {
    **dict.fromkeys(("nations", "umls", "kinship"), _read_folder),
    **dict.fromkeys(COUNTRIES, _read_countries),
    **dict.fromkeys(("wn18rr", "fb15k-237"), _read_archive),
}
