"""Files of a model or a checkpoint: tensors as safetensors, everything else in a JSON manifest. No pickles.

`check_consistent` checks that the parts of a model's files fit together, so that no model needs to.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from ctp_core.errors import ArtifactError
from ctp_core.kb.knowledge_base import distinct_facts
from ctp_core.manifest import MANIFEST, TENSORS, decode_manifest, encode_manifest


@dataclass(frozen=True)
class Artifact:
    """`manifest` is JSON; `tensors` are on the CPU."""

    manifest: dict[str, Any]
    tensors: dict[str, torch.Tensor]


def encode(artifact: Artifact) -> dict[str, bytes]:
    """The files of an artifact: name -> content."""
    tensors = save_tensors({name: tensor.detach().cpu().contiguous() for name, tensor in artifact.tensors.items()})
    return {TENSORS: tensors, MANIFEST: encode_manifest(artifact.manifest, tensors)}


def decode(files: dict[str, bytes]) -> Artifact:
    """The opposite of `encode`; raises ArtifactError on anything missing, damaged or of another format."""
    manifest = decode_manifest(files)
    try:
        return Artifact(manifest, load_tensors(files[TENSORS]))
    except SafetensorError as error:
        raise ArtifactError(f"{TENSORS} cannot be read: {error}") from error


def save(artifact: Artifact, folder: Path) -> None:
    """Writes each file under another name first, so that a kill leaves the old one or the new one."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in encode(artifact).items():
        temporary = folder / f".{name}.part"
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder / name)


def load(folder: Path) -> Artifact:
    names = (MANIFEST, TENSORS)
    return decode({name: (folder / name).read_bytes() for name in names if (folder / name).is_file()})


SYMBOLS = {"facts": ("entities", "predicates"), "graphs": ("predicates", "targets")}
FACTS, TRAIN = "facts.", "facts.train"
DTYPES = (torch.float32, torch.float64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
# Far beyond what a training ends with; a product of a few such numbers is still finite.
MAX_MAGNITUDE = 1e9


def check_magnitude(what: str, *values: float) -> None:
    """Raises ArtifactError unless all numbers are finite and can be computed with."""
    # Written so that NaN, which compares as false, is refused.
    if not all(-MAX_MAGNITUDE <= value <= MAX_MAGNITUDE for value in values):
        raise ArtifactError(f"{what} of the artifact are not all finite, or beyond {MAX_MAGNITUDE:g}")


def check_consistent(artifact: Artifact) -> None:
    """Raises ArtifactError unless names are distinct texts, facts refer to them, and numbers can be computed with."""
    kind = artifact.manifest["kind"]
    sizes = {role: _num_symbols(artifact.manifest, role) for role in SYMBOLS[kind]}
    for name, tensor in artifact.tensors.items():
        if tensor.dtype not in DTYPES:
            raise ArtifactError(f"the tensor {name!r} has numbers of type {tensor.dtype}, which no model has")
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise ArtifactError(f"the tensor {name!r} holds numbers that are not finite")
        if tensor.is_floating_point() and tensor.numel() and tensor.abs().max() > MAX_MAGNITUDE:
            raise ArtifactError(f"the tensor {name!r} holds numbers beyond {MAX_MAGNITUDE:g}")
    if kind == "facts":
        if TRAIN not in artifact.tensors:
            raise ArtifactError(f"the artifact of a model of facts has no {TRAIN!r}")
        if not len(artifact.tensors[TRAIN]):
            raise ArtifactError(f"{TRAIN!r} is empty: every model is trained on facts")
        for name in artifact.tensors:
            if name.startswith(FACTS):
                _check_facts(name, artifact.tensors[name], sizes["entities"], sizes["predicates"])


def _num_symbols(manifest: dict[str, Any], role: str) -> int:
    names = manifest.get(role)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ArtifactError(f"the artifact has no list of {role}")
    if len(set(names)) != len(names):
        raise ArtifactError(f"some {role} are listed twice")
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        raise ArtifactError(f"some {role} have names that cannot be written as UTF-8") from None
    return len(names)


def _check_facts(name: str, facts: torch.Tensor, num_entities: int, num_predicates: int) -> None:
    if facts.dtype != torch.int64 or facts.ndim != 2 or facts.shape[1] != 3:
        raise ArtifactError(f"{name!r} is not a table of facts")
    sizes = torch.tensor([num_entities, num_predicates, num_entities])
    if ((facts < 0) | (facts >= sizes)).any():
        raise ArtifactError(f"{name!r} refers to entities or predicates that have no name")
    if len(distinct_facts(facts.numpy(), num_entities, num_predicates)) < len(facts):
        # Paths through facts that are repeated a thousand times would be searched a thousand times each.
        raise ArtifactError(f"{name!r} lists a fact twice")
