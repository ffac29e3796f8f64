"""What an imported model is asked before it is registered."""

import zipfile
from pathlib import Path

import pytest

from ctp_core.artifact import decode
from ctp_core.manifest import MANIFEST, TENSORS
from service.models.probe import PROBE, probe

GOLDEN = Path(__file__).parents[1] / "golden" / "v0.1.0"


def files(name: str) -> dict[str, bytes]:
    with zipfile.ZipFile(GOLDEN / f"{name}.ctp.zip") as archive:
        return {member: archive.read(member) for member in (MANIFEST, TENSORS)}


def test_a_model_of_facts_is_asked_for_every_place_of_a_fact_it_knows() -> None:
    content = files("facts-rules")
    subject, predicate, object_, whole = (question["goal"] for question in probe(content))
    artifact = decode(content)
    first = artifact.tensors["facts.train"][0].tolist()
    entities, predicates = artifact.manifest["entities"], artifact.manifest["predicates"]
    assert whole == [entities[first[0]], predicates[first[1]], entities[first[2]]]
    assert [subject, predicate, object_] == [[None, *whole[1:]], [whole[0], None, whole[2]], [*whole[:2], None]]
    assert all(question["proofs"] for question in probe(content))


def test_a_model_of_graphs_is_asked_about_a_path() -> None:
    asked = probe(files("graphs-lstm"))
    assert [question["goal"].count(None) for question in asked] == [1, 1, 1, 0]
    assert all(len(question["facts"]) == 2 for question in asked)


def tensors(header: bytes) -> dict[str, bytes]:
    return {TENSORS: len(header).to_bytes(8, "little") + header}


DEEP = tensors(b'{"a":' * 100_000 + b"1" + b"}" * 100_000)
FAR = tensors(b'{"facts.train":{"dtype":"I64","shape":[1,3],"data_offsets":[1%s,1%s]}}' % (b"0" * 30, b"0" * 31))


@pytest.mark.parametrize(
    "damage", [{MANIFEST: b"{}"}, {MANIFEST: b"["}, {TENSORS: b"nonsense"}, {TENSORS: b""}, DEEP, FAR]
)
def test_what_is_not_a_model_is_left_to_the_worker_that_loads_it(damage: dict[str, bytes]) -> None:
    assert probe(files("facts-rules") | damage) == [PROBE]
