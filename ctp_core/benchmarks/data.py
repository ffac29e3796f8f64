"""Reads the published link-prediction benchmarks from a folder as they are: TSV files or a tar.gz of them."""

import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from ctp_core.errors import DataError
from ctp_core.kb.formats.tsv import read_tsv
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.symbols import Fact

LOCATED_IN = "locatedIn"
Splits = dict[str, list[Fact]]


def read_benchmark(folder: Path, dataset: str) -> FactsKB:
    """Reads a data set from its folder in `folder`; raises DataError where the name is unknown or a file is missing."""
    return FactsKB.from_facts(benchmark_facts(folder, dataset))


def benchmark_facts(folder: Path, dataset: str) -> Splits:
    """The facts of each split; raises DataError as `read_benchmark` does."""
    if dataset not in READERS:
        raise DataError(f"data set {dataset!r} is unknown; choose from {', '.join(READERS)}")
    try:
        return READERS[dataset](folder, dataset)
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
    files = {"train": "train.tsv", "valid": "dev.tsv", "test": "test.tsv"}
    return {split: _facts(folder / dataset / file) for split, file in files.items()}


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


READERS: dict[str, Callable[[Path, str], Splits]] = {
    **dict.fromkeys(("nations", "umls", "kinship"), _read_folder),
    **dict.fromkeys(("countries-s1", "countries-s2", "countries-s3"), _read_countries),
    **dict.fromkeys(("wn18rr", "fb15k-237"), _read_archive),
}
