"""Knowledge bases to begin with; they belong to everyone and cannot be changed. See README.md for their sources."""

import time
from pathlib import Path

from ctp_core.benchmarks.data import Splits, benchmark_facts
from ctp_core.kb.facts_builder import BuiltKB, FactsBuilder, KbLimits
from ctp_core.kb.formats.tsv import read_tsv
from service.db.engine import Database
from service.errors import Conflict
from service.kbs import repository
from service.kbs import service as kbs

FOLDER = Path(__file__).parent
POLL_SECONDS = 0.5
BENCHMARKS = ("nations", "umls", "kinship", "countries-s1", "countries-s2", "countries-s3")
SAMPLES = ("family", *BENCHMARKS)


def read_sample(name: str) -> BuiltKB:
    """One of SAMPLES; raises DataError on another name."""
    builder = FactsBuilder(KbLimits())
    for split, facts in _splits(name).items():
        builder.add(split, ((line, *fact) for line, fact in enumerate(facts, 1)), name)
    return builder.build()


def _splits(name: str) -> Splits:
    if name != "family":
        return benchmark_facts(FOLDER, name)
    with (FOLDER / "family.tsv").open("rb") as file:
        return {"train": list(read_tsv(file, "family.tsv"))}


def load_samples(database: Database) -> int:
    """Stores those that are not there yet; the number of samples."""
    for name in SAMPLES:
        with database.read() as session:
            present = repository.owned(session, repository.SAMPLE_TENANT, name)
        if present is None or present.status != "ready":
            _load(database, name)
    return len(SAMPLES)


def _load(database: Database, name: str) -> None:
    """Where another process loads the same sample, or died while it did, waits for the end of that."""
    while True:
        try:
            kbs.create(database, repository.SAMPLE_TENANT, name, read_sample(name))
            return
        except Conflict as error:
            if error.code != "kb_loading":
                raise
            time.sleep(POLL_SECONDS)
