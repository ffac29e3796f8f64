"""Files of a model or a checkpoint: tensors as safetensors, everything else in a JSON manifest. No pickles."""

import json
import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from ctp_core.errors import ArtifactError

FORMAT = 1
MANIFEST = "manifest.json"
TENSORS = "tensors.safetensors"


@dataclass(frozen=True)
class Artifact:
    """`manifest` is JSON; `tensors` are on the CPU."""

    manifest: dict[str, Any]
    tensors: dict[str, torch.Tensor]


def encode(artifact: Artifact) -> dict[str, bytes]:
    """File name -> content. The manifest names the checksum of the tensors, so the two cannot be mixed up."""
    tensors = save_tensors({name: tensor.detach().cpu().contiguous() for name, tensor in artifact.tensors.items()})
    manifest = {**artifact.manifest, "format": FORMAT, "tensors_sha256": sha256(tensors).hexdigest()}
    return {TENSORS: tensors, MANIFEST: json.dumps(manifest, ensure_ascii=False, allow_nan=False).encode()}


def decode(files: dict[str, bytes]) -> Artifact:
    """The opposite of `encode`; raises ArtifactError on anything missing, damaged or of another format."""
    try:
        manifest = json.loads(files[MANIFEST])
        tensors = files[TENSORS]
    except KeyError as error:
        raise ArtifactError(f"the artifact has no {error.args[0]}") from None
    except ValueError:
        raise ArtifactError(f"{MANIFEST} is not JSON") from None
    if not isinstance(manifest, dict) or manifest.pop("format", None) != FORMAT:
        raise ArtifactError(f"{MANIFEST} is not of format {FORMAT}")
    if manifest.pop("tensors_sha256", None) != sha256(tensors).hexdigest():
        raise ArtifactError(f"{TENSORS} does not match the checksum in {MANIFEST}")
    try:
        return Artifact(manifest, load_tensors(tensors))
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
