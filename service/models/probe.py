"""Questions that an imported model must be able to answer: whatever else its files hold, it computes."""

import json
from typing import Any

import numpy as np

from ctp_core.manifest import MANIFEST, TENSORS
from service.files.storage import Files

Question = dict[str, Any]
NOBODY = "ctp:probe"
# Any answer will do, even that the name is unknown: the model was loaded to tell.
PROBE: Question = {
    "goal": [NOBODY, NOBODY, NOBODY],
    "facts": [],
    "top_k": 3,
    "proofs": 1,
    "depth": None,
    "exclude_known": False,
}
TRAIN = "facts.train"


def probe(files: Files) -> list[Question]:
    """Asks for every place of a fact that the model knows, and for the fact itself, each with a proof.

    Files that are not those of a model get a question about nobody: the worker that loads them says what is wrong.
    """
    try:
        manifest = json.loads(files[MANIFEST])
        whole, facts = _from_facts(manifest, files[TENSORS]) if manifest["kind"] == "facts" else _from_graphs(manifest)
        depth = 1 if manifest["config"]["method"] == "ctp" else None  # deeper search computes the same, for longer
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, RecursionError):
        return [PROBE]
    opened = [[None if place == left else name for place, name in enumerate(whole)] for left in range(3)]
    return [PROBE | {"goal": goal, "facts": facts, "depth": depth} for goal in (*opened, whole)]


def _from_facts(manifest: dict[str, Any], tensors: bytes) -> tuple[list[str], list[list[str]]]:
    subject, predicate, object_ = _first_fact(tensors)
    entities = manifest["entities"]
    return [entities[subject], manifest["predicates"][predicate], entities[object_]], []


def _first_fact(tensors: bytes) -> list[int]:
    """Reads the first training fact from the safetensors format, which begins with the length of a JSON header."""
    start = 8 + int.from_bytes(tensors[:8], "little")
    table = json.loads(tensors[8:start])[TRAIN]
    if table["dtype"] != "I64" or len(table["shape"]) != 2:
        raise ValueError(f"{TRAIN} is not a table of facts")
    fact: list[int] = np.frombuffer(tensors, "<i8", 3, start + table["data_offsets"][0]).tolist()
    return fact


def _from_graphs(manifest: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """A path of two facts, and the first label between its ends."""
    predicate = manifest["predicates"][0]
    return ["a", manifest["targets"][0], "c"], [["a", predicate, "b"], ["b", predicate, "c"]]
