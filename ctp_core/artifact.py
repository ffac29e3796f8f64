"""Files of a model or a checkpoint: tensors as safetensors, everything else in a JSON manifest. No pickles."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from ctp_core.errors import ArtifactError
from ctp_core.manifest import MANIFEST, TENSORS, decode_manifest, encode_manifest


@dataclass(frozen=True)
class Artifact:
    """`manifest` is JSON; `tensors` are on the CPU."""

    manifest: dict[str, Any]
    tensors: dict[str, torch.Tensor]


def encode(artifact: Artifact) -> dict[str, bytes]:
    """File name -> content."""
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
