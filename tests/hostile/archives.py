"""Archives of models that somebody has tampered with: bytes, members, the card, the manifest, the tensors."""

import io
import json
import random
import stat
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from ctp_core.manifest import MANIFEST, TENSORS, encode_manifest
from service.models.archive import CARD
from tests.hostile.values import odd_number, odd_text, odd_value

STORED = sorted((Path(__file__).parent.parent / "golden" / "v0.1.0").glob("*.ctp.zip"))
DTYPES = ("float16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool")


@dataclass
class Opened:
    """An archive in parts that can be changed one by one."""

    card: dict[str, Any]
    manifest: dict[str, Any]
    tensors: dict[str, np.ndarray[Any, Any]]

    @classmethod
    def read(cls, path: Path) -> "Opened":
        with zipfile.ZipFile(path) as archive:
            tensors = safetensors.numpy.load(archive.read(TENSORS))
            return cls(json.loads(archive.read(CARD)), json.loads(archive.read(MANIFEST)), dict(tensors))

    def members(self) -> dict[str, bytes]:
        """With the checksum that belongs to the tensors, so that no check ends before what is looked for."""
        tensors = safetensors.numpy.save({name: np.ascontiguousarray(t) for name, t in self.tensors.items()})
        return {
            CARD: json.dumps(self.card).encode(),
            MANIFEST: encode_manifest(self.manifest, tensors),
            TENSORS: tensors,
        }


def hostile_archive(dice: random.Random) -> bytes:
    opened = Opened.read(dice.choice(STORED))
    for _ in range(dice.choice([0, 1, 1, 1, 2, 3])):
        dice.choice(TAMPERING)(dice, opened)
    try:
        members = opened.members()
    except (ValueError, OverflowError):  # what cannot be written at all, such as NaN in JSON
        members = Opened.read(STORED[0]).members()
    content = zipped(dice, members)
    return dice.choice(DAMAGE)(dice, content) if dice.random() < 0.2 else content


def zipped(dice: random.Random, members: dict[str, bytes]) -> bytes:
    """Sometimes with members that are links, come twice, or have a name that differs in its case only."""
    entries = [(zipfile.ZipInfo(name), content) for name, content in members.items()]
    odd = dice.randrange(12)
    if odd == 0:
        linked = dice.choice(entries)[0]
        linked.create_system, linked.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    if odd == 1:
        entries[dice.randrange(3)] = (dice.choice(entries)[0], b"../../../../etc/passwd")
    if odd == 2:
        name, content = dice.choice(list(members.items()))
        entries.append((zipfile.ZipInfo(dice.choice([name.upper(), name.title(), f"./{name}", f"../{name}"])), content))
    if odd == 3:
        entries = [(zipfile.ZipInfo(info.filename.upper()), content) for info, content in entries]
    out = io.BytesIO()
    with zipfile.ZipFile(
        out, "w", dice.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
    ) as archive:
        for info, content in entries:
            if info.filename not in archive.namelist():
                archive.writestr(info, content)
    return out.getvalue()


def edit_json(dice: random.Random, value: Any) -> None:
    """Changes, removes or adds one thing anywhere below."""
    for _ in range(dice.randrange(4)):
        inner = list(value.values()) if isinstance(value, dict) else value
        deeper = [part for part in inner if isinstance(part, (dict, list)) and part]
        if not deeper:
            break
        value = dice.choice(deeper)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = dice.choice(keys)
    how = dice.randrange(5)
    if how == 0:
        del value[key]
    elif how == 1 and isinstance(value, dict):
        value[odd_text(dice)] = odd_value(dice)
    elif how == 2 and isinstance(value, list):
        value.append(value[key])
    else:
        value[key] = odd_number(dice) if isinstance(value[key], (int, float)) else odd_value(dice)


def edit_card(dice: random.Random, opened: Opened) -> None:
    edit_json(dice, opened.card)


def edit_manifest(dice: random.Random, opened: Opened) -> None:
    edit_json(dice, opened.manifest)


def edit_names(dice: random.Random, opened: Opened) -> None:
    """Names that collide, or differ in their case only."""
    names = opened.manifest[dice.choice([key for key in ("entities", "predicates") if key in opened.manifest])]
    if isinstance(names, list) and names:
        place, other = dice.randrange(len(names)), str(dice.choice(names))
        names[place] = dice.choice([other, other.upper(), other.title(), odd_text(dice)])


def edit_tensor(dice: random.Random, opened: Opened) -> None:
    if opened.tensors:
        name = dice.choice(list(opened.tensors))
        with np.errstate(all="ignore"):
            opened.tensors[name] = dice.choice(TENSOR_CHANGES)(dice, opened.tensors[name])


def drop_tensor(dice: random.Random, opened: Opened) -> None:
    if opened.tensors:
        del opened.tensors[dice.choice(list(opened.tensors))]


def move_tensor(dice: random.Random, opened: Opened) -> None:
    if opened.tensors:
        opened.tensors[odd_text(dice)[:50] or "x"] = opened.tensors.pop(dice.choice(list(opened.tensors)))


Tensor = np.ndarray[Any, Any]


def _filled(dice: random.Random, tensor: Tensor) -> Tensor:
    value = dice.choice([0, -1, 1, 2**31, 2**62, -(2**63), float("nan"), float("inf"), 3e38, -3e38, 1e-45, 1e308])
    if not np.issubdtype(tensor.dtype, np.floating):
        value = int(value) if np.isfinite(value) and abs(value) < 2**63 else 2**62
    return np.full_like(tensor, np.array(value).astype(tensor.dtype))


def _one_changed(dice: random.Random, tensor: Tensor) -> Tensor:
    changed = tensor.copy()
    if changed.size:
        changed.reshape(-1)[dice.randrange(changed.size)] = _filled(dice, tensor[:1]).reshape(-1)[0]
    return changed


def _reshaped(dice: random.Random, tensor: Tensor) -> Tensor:
    shapes = [(-1,), (1, -1), (-1, 1), (*tensor.shape, 1)]
    return tensor.reshape(dice.choice(shapes)) if tensor.size else tensor


TENSOR_CHANGES: list[Callable[[random.Random, Tensor], Tensor]] = [
    lambda dice, tensor: tensor.astype(dice.choice(DTYPES)),
    lambda _, tensor: tensor[:0],
    lambda _, tensor: tensor[: tensor.shape[0] // 2] if tensor.ndim else tensor,
    lambda _, tensor: np.concatenate([tensor, tensor]) if tensor.ndim else tensor,
    lambda _, tensor: tensor[::-1].copy() if tensor.ndim else tensor,
    lambda dice, tensor: (tensor * dice.choice([-1, 1000])).astype(tensor.dtype),
    lambda _, tensor: tensor.T.copy(),
    _filled,
    _one_changed,
    _one_changed,
    _reshaped,
]
TAMPERING = [
    edit_card,
    edit_manifest,
    edit_manifest,
    edit_names,
    edit_tensor,
    edit_tensor,
    edit_tensor,
    drop_tensor,
    move_tensor,
]


def _flipped(dice: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(dice.choice([1, 1, 5, 50])):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


DAMAGE: list[Callable[[random.Random, bytes], bytes]] = [
    _flipped,
    _flipped,
    lambda dice, content: content[: dice.randrange(len(content))],
    lambda dice, content: content[dice.randrange(len(content)) :],
    lambda dice, content: content + content[: dice.randrange(len(content))],
]
