"""How an atom meets a fact in its three places, given the squared distance in each.

`concat` is one kernel over the three concatenated vectors (squared distances add); `per_symbol` is the minimum of
three kernels (Algorithm 1). With crisp entities the two outer distances are 0 or ∞, and both are the kernel of the
predicates alone.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ctp_core.kernels import ExponentialKernel

# √ has an infinite slope at 0; below this a squared distance is 0 for float32 vectors of ordinary size.
SQUARED_FLOOR = 1e-12

Unify = Callable[[ExponentialKernel, Tensor, Tensor, Tensor], Tensor]


def concat(kernel: ExponentialKernel, predicate: Tensor, subject: Tensor, object_: Tensor) -> Tensor:
    """One kernel; arguments are squared distances that broadcast."""
    return kernel.from_distance((predicate + subject + object_).clamp(min=SQUARED_FLOOR).sqrt())


def per_symbol(kernel: ExponentialKernel, predicate: Tensor, subject: Tensor, object_: Tensor) -> Tensor:
    """The minimum of three kernels is the kernel of the largest distance."""
    largest = torch.maximum(torch.maximum(predicate, subject), object_)
    return kernel.from_distance(largest.clamp(min=SQUARED_FLOOR).sqrt())


UNIFICATIONS: dict[str, Unify] = {"concat": concat, "per_symbol": per_symbol}
