"""The torch device and the threads of this process."""

import os

import torch


def choose_device(name: str) -> torch.device:
    """`auto` is a GPU where there is one; CUDA_VISIBLE_DEVICES tells workers apart."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def limit_threads(threads: int) -> None:
    """More threads than cores make every process slower: two processes share the machine by default."""
    torch.set_num_threads(threads or max(1, (os.cpu_count() or 2) // 2))
