"""Knowledge bases to begin with; they belong to everyone and cannot be changed. See README.md for their sources."""

import time
from pathlib import Path

from ctp_core.datasets.builder import BuiltKB, FactsBuilder, KbLimits
from ctp_core.datasets.rows import FileLimits
from ctp_core.datasets.tsv import tsv_rows
from service.db.engine import Database
from service.errors import Conflict
from service.kbs import repository
from service.kbs import service as kbs

FOLDER = Path(__file__).parent
POLL_SECONDS = 0.5
SAMPLES: dict[str, dict[str, str]] = {
    "family": {"train": "family.tsv"},
    **{
        name: {"train": f"{name}/train.tsv", "valid": f"{name}/dev.tsv", "test": f"{name}/test.tsv"}
        for name in ("nations", "umls", "kinship")
    },
    **{f"countries-{task}": {"train": f"countries/countries_{task.upper()}.tsv"} for task in ("s1", "s2", "s3")},
}


def read_sample(name: str) -> BuiltKB:
    builder = FactsBuilder(KbLimits())
    for split, path in SAMPLES[name].items():
        with (FOLDER / path).open("rb") as file:
            builder.add(split, tsv_rows(file, path, FileLimits()), path)
    return builder.build()


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
