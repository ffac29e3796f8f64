"""torch's own generator, which layers and dropout draw from, made to follow an explicit one."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

SEEDS = 2**62


@contextmanager
def following(generator: torch.Generator, device: torch.device) -> Iterator[None]:
    """Within, torch draws from a seed that `generator` gave; afterwards its state is what it was before."""
    seed = int(torch.randint(SEEDS, (1,), generator=generator))
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
