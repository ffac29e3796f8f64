"""Chooses the torch device and the number of threads of this process."""

import torch

from service.local.processes import num_threads


def choose_device(name: str) -> torch.device:
    """Returns the device; `auto` is a GPU if there is one. CUDA_VISIBLE_DEVICES assigns GPUs to workers."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def limit_threads(threads: int) -> None:
    torch.set_num_threads(num_threads(threads))
