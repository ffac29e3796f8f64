"""The torch device and the threads of this process."""

import torch

from service.local.processes import num_threads


def choose_device(name: str) -> torch.device:
    """`auto` is a GPU where there is one; CUDA_VISIBLE_DEVICES tells workers apart."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def limit_threads(threads: int) -> None:
    torch.set_num_threads(num_threads(threads))
