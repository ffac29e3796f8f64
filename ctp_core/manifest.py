"""The names of a model's files, and the manifest that tells whether they are complete. Imports no torch."""

import json
import math
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from ctp_core.errors import ArtifactError

FORMAT = 1
MANIFEST = "manifest.json"
TENSORS = "tensors.safetensors"


def encode_manifest(manifest: Mapping[str, Any], tensors: bytes) -> bytes:
    """Writes the manifest with the checksum of the tensors, so that files of two models cannot be mixed up."""
    whole = {**manifest, "format": FORMAT, "tensors_sha256": sha256(tensors).hexdigest()}
    return json.dumps(whole, ensure_ascii=False, allow_nan=False).encode()


def _finite(text: str) -> float:
    """Raises ValueError for NaN, Infinity and 1e999, which Python's JSON reader would accept."""
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is not finite")
    return number


def decode_manifest(files: Mapping[str, bytes]) -> dict[str, Any]:
    """Reads the manifest; raises ArtifactError where a file is missing, damaged or of another format."""
    try:
        content, tensors = files[MANIFEST], files[TENSORS]
    except KeyError as error:
        raise ArtifactError(f"the artifact has no {error.args[0]}") from None
    return decode_manifest_of(content, sha256(tensors).hexdigest())


def decode_manifest_of(content: bytes, tensors_sha256: str) -> dict[str, Any]:
    """Reads the manifest of tensors with this checksum; raises as `decode_manifest`."""
    try:
        manifest = json.loads(content, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        raise ArtifactError(f"{MANIFEST} is not JSON") from None
    if not isinstance(manifest, dict) or manifest.pop("format", None) != FORMAT:
        raise ArtifactError(f"{MANIFEST} is not of format {FORMAT}")
    if manifest.pop("tensors_sha256", None) != tensors_sha256:
        raise ArtifactError(f"{TENSORS} does not match the checksum in {MANIFEST}")
    return manifest
