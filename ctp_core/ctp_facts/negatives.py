"""Negative sampling of the paper's prover: false facts, made by replacing entities of true ones. For loss `sampled`."""

from dataclasses import dataclass

import numpy as np
import torch

from ctp_core.ctp_facts.config import WAYS
from ctp_core.kb.knowledge_base import FactIds, FactSet


@dataclass(frozen=True)
class NegativeSampler:
    """Corrupts each fact `times` times in each way; `known` are the facts that are true."""

    known: FactSet
    num_entities: int
    times: int

    def draw(self, facts: FactIds, generator: torch.Generator) -> FactIds:
        """Negatives of all these facts; fewer where a corrupted fact happens to be true."""
        corrupted = self._corrupted(facts, generator)
        return corrupted[~self.known.states(corrupted)]  # in Nations, one corrupted fact in seven is true

    def _corrupted(self, facts: FactIds, generator: torch.Generator) -> FactIds:
        drawn = torch.randint(self.num_entities, (self.times, 4, len(facts)), generator=generator).numpy()
        corrupted = np.tile(facts, (self.times, WAYS, 1, 1))  # [time, way, fact, 3]
        corrupted[:, 0, :, 0], corrupted[:, 1, :, 2] = drawn[:, 0], drawn[:, 1]
        corrupted[:, 2, :, 0], corrupted[:, 2, :, 2] = drawn[:, 2], drawn[:, 3]
        return corrupted.reshape(-1, 3)
