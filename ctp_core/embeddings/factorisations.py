"""The factorisations behind the embedding models: φ is the product of a question's vector with an answer's.

A new one is a class in FACTORISATIONS here, and its settings in config.py.
"""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

INITIAL_SCALE = 1e-3  # N3 must start near zero: it never unlearns large initial products


class Factorisation(nn.Module, ABC):
    """φ(s, p, o) = query(s, p) · e_o = query(o, p⁻¹) · e_s. Inverses are numbered after the predicates."""

    def __init__(self, sizes: tuple[int, int], width: int, generator: torch.Generator, device: torch.device) -> None:
        super().__init__()
        num_entities, num_predicates = sizes
        self.num_predicates = num_predicates
        self.entities = nn.Parameter(self._initial(num_entities, width, generator).to(device))
        self.predicates = nn.Parameter(self._initial(num_predicates, width, generator).to(device))
        self.inverses = nn.Parameter(self._initial(num_predicates, width, generator).to(device))

    @staticmethod
    def _initial(rows: int, width: int, generator: torch.Generator) -> Float[Tensor, "row width"]:
        return INITIAL_SCALE * torch.randn(rows, width, generator=generator)

    @abstractmethod
    def compose(self, entity: Float[Tensor, "row width"], predicate: Float[Tensor, "row width"]) -> Tensor:
        """The vector whose product with e_o is φ."""

    @abstractmethod
    def adjoint(self, predicate: Float[Tensor, "row width"]) -> Float[Tensor, "row width"]:
        """The predicate read from object to subject."""

    def pairs(
        self, subjects: Float[Tensor, "row width"], objects: Float[Tensor, "row width"]
    ) -> Float[Tensor, "row width"]:
        """The vector whose product with a predicate is φ."""
        return self.adjoint(self.compose(subjects, self.adjoint(objects)))

    @abstractmethod
    def moduli(self, vectors: Float[Tensor, "row width"]) -> Float[Tensor, "row rank"]:
        """The absolute values whose cubes N3 adds up."""

    def queries(
        self, entities: Float[Tensor, "row width"], atoms: Int[Tensor, " row"], *, tied: bool
    ) -> tuple[Float[Tensor, "row width"], Float[Tensor, "row width"]]:
        """(query vectors, predicate vectors). `tied` reads an inverse as the adjoint of its predicate."""
        forward = self.predicates[atoms % self.num_predicates]
        other = self.adjoint(forward) if tied else self.inverses[atoms % self.num_predicates]
        predicates = torch.where((atoms < self.num_predicates)[:, None], forward, other)
        return self.compose(entities, predicates), predicates

    def averaged(self) -> Float[Tensor, "predicate width"]:
        """The predicate vectors whose φ is the mean of both directions: one score per fact."""
        return (self.predicates + self.adjoint(self.inverses)) / 2


class ComplexFactorisation(Factorisation):
    """The first half of a vector holds the real parts, the second half the imaginary parts."""

    def compose(self, entity: Float[Tensor, "row width"], predicate: Float[Tensor, "row width"]) -> Tensor:
        (a, b), (c, d) = entity.chunk(2, -1), predicate.chunk(2, -1)
        return torch.cat([a * c - b * d, a * d + b * c], -1)

    def adjoint(self, predicate: Float[Tensor, "row width"]) -> Float[Tensor, "row width"]:
        real, imaginary = predicate.chunk(2, -1)
        return torch.cat([real, -imaginary], -1)

    def moduli(self, vectors: Float[Tensor, "row width"]) -> Float[Tensor, "row rank"]:
        real, imaginary = vectors.chunk(2, -1)
        return (real**2 + imaginary**2).clamp(min=1e-20).sqrt()  # the root has no gradient at 0


class DistMultFactorisation(Factorisation):
    """A diagonal bilinear form, so every predicate is symmetric."""

    def compose(self, entity: Float[Tensor, "row width"], predicate: Float[Tensor, "row width"]) -> Tensor:
        return entity * predicate

    def adjoint(self, predicate: Float[Tensor, "row width"]) -> Float[Tensor, "row width"]:
        return predicate

    def moduli(self, vectors: Float[Tensor, "row width"]) -> Float[Tensor, "row rank"]:
        return vectors.abs()


FACTORISATIONS: dict[str, type[Factorisation]] = {"complex": ComplexFactorisation, "distmult": DistMultFactorisation}
