"""How an atom meets a fact in its three places, given the squared distance in each.

`concat` is one kernel over the three concatenated vectors (squared distances add); `per_symbol` is the minimum of
three kernels (Algorithm 1), which is the kernel of the largest distance. With crisp entities the two outer distances
are 0 or ∞, and both are the kernel of the predicates alone.
"""

from collections.abc import Callable

import torch
from torch import Tensor

# √ has an infinite slope at 0; below this a squared distance is 0 for float32 vectors of ordinary size.
SQUARED_FLOOR = 1e-12

Join = Callable[[Tensor, Tensor, Tensor], Tensor]


def concat(predicate: Tensor, subject: Tensor, object_: Tensor) -> Tensor:
    return predicate + subject + object_


def per_symbol(predicate: Tensor, subject: Tensor, object_: Tensor) -> Tensor:
    return torch.maximum(torch.maximum(predicate, subject), object_)


UNIFICATIONS: dict[str, Join] = {"concat": concat, "per_symbol": per_symbol}


def distance(unification: str, predicate: Tensor, subject: Tensor, object_: Tensor) -> Tensor:
    """Of an atom and a fact; arguments are squared distances that broadcast."""
    return UNIFICATIONS[unification](predicate, subject, object_).clamp(min=SQUARED_FLOOR).sqrt()
