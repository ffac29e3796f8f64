"""Knowledge bases to begin with; they belong to everyone and cannot be changed. See README.md for their sources."""

from pathlib import Path

from ctp_core.datasets.tsv import read_tsv
from ctp_core.symbols import Fact
from service.db.engine import Database
from service.kbs import repository
from service.kbs import service as kbs

FOLDER = Path(__file__).parent
SAMPLES: dict[str, dict[str, str]] = {
    "family": {"train": "family.tsv"},
    **{
        name: {"train": f"{name}/train.tsv", "valid": f"{name}/dev.tsv", "test": f"{name}/test.tsv"}
        for name in ("nations", "umls", "kinship")
    },
    **{f"countries-{task}": {"train": f"countries/countries_{task.upper()}.tsv"} for task in ("s1", "s2", "s3")},
}


def read_sample(name: str) -> dict[str, list[Fact]]:
    splits = {}
    for split, path in SAMPLES[name].items():
        with (FOLDER / path).open("rb") as file:
            splits[split] = list(read_tsv(file, path))
    return splits


def load_samples(database: Database) -> int:
    """Stores those that are not there yet; the number of samples."""
    for name in SAMPLES:
        with database.read() as session:
            present = repository.owned(session, repository.SAMPLE_TENANT, name)
        if present is None:
            prepared = kbs.prepare(read_sample(name))
            with database.write() as session:
                kbs.create(session, repository.SAMPLE_TENANT, name, prepared)
    return len(SAMPLES)
