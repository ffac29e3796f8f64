"""Sample knowledge bases, shared by all tenants and read-only. README.md names their sources."""

import time
from functools import partial
from pathlib import Path

from ctp_core.benchmarks.data import Splits, benchmark_facts
from ctp_core.kb.facts_builder import BuiltKB, FactsBuilder, KbLimits
from ctp_core.kb.formats.tsv import read_tsv
from service.db.engine import Database
from service.errors import Conflict
from service.facts.files import KbFiles
from service.kbs import repository
from service.kbs import service as kbs

FOLDER = Path(__file__).parent
POLL_SECONDS = 0.5
BENCHMARKS = ("nations", "umls", "kinship", "countries-s1", "countries-s2", "countries-s3")
SAMPLES = ("family", *BENCHMARKS)


def read_sample(name: str) -> BuiltKB:
    """Reads one of SAMPLES; raises DataError for another name."""
    builder = FactsBuilder(KbLimits())
    for split, facts in _splits(name).items():
        builder.add(split, ((line, *fact) for line, fact in enumerate(facts, 1)), name)
    return builder.build()


def _splits(name: str) -> Splits:
    if name != "family":
        return benchmark_facts(FOLDER, name)
    with (FOLDER / "family.tsv").open("rb") as file:
        return {"train": list(read_tsv(file, "family.tsv"))}


def load_samples(database: Database, files: KbFiles) -> int:
    """Stores the samples that are missing, and the files of those that have lost them; returns how many there are."""
    for name in SAMPLES:
        with database.read() as session:
            present = repository.owned(session, repository.SAMPLE_TENANT, name)
        if present is None or present.status != "ready":
            _load(database, files, name)
        else:
            kbs.restore(database, files, present, partial(read_sample, name))
    return len(SAMPLES)


def _load(database: Database, files: KbFiles, name: str) -> None:
    """Loads a sample; waits if another process is loading it, or died while doing so."""
    while True:
        try:
            kbs.create(database, files, repository.SAMPLE_TENANT, name, read_sample(name))
            return
        except Conflict as error:
            if error.code != "kb_loading":
                raise
            time.sleep(POLL_SECONDS)
