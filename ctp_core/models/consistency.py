"""Whether the parts of a model's files go together: what every model may rely on when it is made from them."""

from typing import Any

import torch

from ctp_core.artifact import Artifact
from ctp_core.errors import ArtifactError

SYMBOLS = {"facts": ("entities", "predicates"), "graphs": ("predicates", "targets")}
FACTS, TRAIN = "facts.", "facts.train"


def check_consistent(artifact: Artifact) -> None:
    """Names are texts of which none is twice, facts are about them, numbers are numbers. Raises ArtifactError."""
    kind = artifact.manifest["kind"]
    sizes = {role: _num_symbols(artifact.manifest, role) for role in SYMBOLS[kind]}
    for name, tensor in artifact.tensors.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise ArtifactError(f"the tensor {name!r} holds numbers that are not finite")
    if kind == "facts":
        if TRAIN not in artifact.tensors:
            raise ArtifactError(f"the artifact of a model of facts has no {TRAIN!r}")
        for name in artifact.tensors:
            if name.startswith(FACTS):
                _check_facts(name, artifact.tensors[name], sizes["entities"], sizes["predicates"])


def _num_symbols(manifest: dict[str, Any], role: str) -> int:
    names = manifest.get(role)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ArtifactError(f"the artifact has no list of {role}")
    if len(set(names)) != len(names):
        raise ArtifactError(f"some of the {role} are named twice")
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        raise ArtifactError(f"some of the {role} are no text that can be written") from None
    return len(names)


def _check_facts(name: str, facts: torch.Tensor, num_entities: int, num_predicates: int) -> None:
    if facts.dtype != torch.int64 or facts.ndim != 2 or facts.shape[1] != 3:
        raise ArtifactError(f"{name!r} is no table of facts")
    sizes = torch.tensor([num_entities, num_predicates, num_entities])
    if ((facts < 0) | (facts >= sizes)).any():
        raise ArtifactError(f"{name!r} speaks of entities or predicates that have no name")
