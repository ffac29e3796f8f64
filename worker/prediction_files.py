"""The rows of a prediction as bytes: CSV or JSON Lines part by part; Parquet is made of all parts in the end."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from ctp_core.predict import Prediction

COLUMNS = {
    "subject": "VARCHAR",
    "predicate": "VARCHAR",
    "object": "VARCHAR",
    "score": "DOUBLE",
    "probability": "DOUBLE",
    "rank": "INTEGER",
    "known": "BOOLEAN",
    "asked": "VARCHAR",
}
PROOF_COLUMNS = {"proof": "VARCHAR", "proof_facts": "VARCHAR[][]"}
LARGEST_ROW_BYTES = 64 * 1024 * 1024
PARQUET_MEMORY = "512MB"  # the rest is written to files meanwhile
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def columns(proofs: int) -> dict[str, str]:
    """Returns the name and, in Parquet, the type of each column."""
    return COLUMNS | (PROOF_COLUMNS if proofs else {})


def part(rows: Sequence[Prediction], file_format: str, proofs: int, *, first: bool) -> bytes:
    """Returns some rows as they stand in the file; in JSON Lines, of which Parquet is made in the end."""
    return _csv(rows, proofs, header=first) if file_format == "csv" else _json_lines(rows, proofs)


def _values(row: Prediction) -> list[object]:
    return [*row.fact, row.score, row.probability, row.rank, row.known, row.asked]


def _proved(row: Prediction) -> tuple[str | None, list[list[str]]]:
    return (None, []) if row.proof is None else (row.proof.text, [list(fact) for fact in row.proof.facts])


def _json_lines(rows: Sequence[Prediction], proofs: int) -> bytes:
    names = list(columns(proofs))
    lines = (_values(row) + (list(_proved(row)) if proofs else []) for row in rows)
    return "".join(f"{_encode(dict(zip(names, line, strict=True)))}\n" for line in lines).encode()


def _csv(rows: Sequence[Prediction], proofs: int, *, header: bool) -> bytes:
    """The facts of a proof are JSON in one column; what is unknown is empty."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    if header:
        writer.writerow(columns(proofs))
    for row in rows:
        proof, facts = _proved(row)
        line = [str(value).lower() if isinstance(value, bool) else value for value in _values(row)]
        writer.writerow([*line, *((proof, _encode(facts)) if proofs else ())])
    return text.getvalue().encode()


def write_parquet(parts: Iterable[bytes], to: Path, proofs: int, threads: int) -> None:
    """Writes the rows of all parts, in their order, to one Parquet file."""
    with TemporaryDirectory() as folder:
        lines = Path(folder, "rows.jsonl")
        with lines.open("wb") as file:
            for rows in parts:
                file.write(rows)
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": PARQUET_MEMORY,
            "threads": threads,
            "temp_directory": folder,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with duckdb.connect(config=settings) as database:
            reading = database.read_json(
                str(lines),
                columns=columns(proofs),
                format="newline_delimited",
                maximum_object_size=LARGEST_ROW_BYTES,
            )
            reading.write_parquet(str(to), compression="zstd")
