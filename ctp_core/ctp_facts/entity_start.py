"""Where entities start: near to those of which the same is stated."""

import torch
from torch import Tensor

from ctp_core.ctp_facts.search import as_tensor
from ctp_core.ctp_facts.theory import SoftTheory
from ctp_core.kb.knowledge_base import FactIds

ROUNDS = 2  # what an entity's neighbours are stated with counts too
OWN = 0.3  # of an entity's own random vector beside that of its facts, so that no two are the same


@torch.no_grad()
def start_from_facts(theory: SoftTheory, facts: FactIds, generator: torch.Generator) -> None:
    """Each entity becomes a random projection of its facts, as long as it was; those without facts stay.

    A fact p(i, j) adds j's vector to i's with signs of p's own, and i's to j's with others; an entity of many facts
    says less of each.
    """
    vectors = theory.entities.data
    subject, predicate, object_ = (as_tensor(column, vectors) for column in facts.T)
    signs = torch.randint(0, 2, (2, len(theory.predicates), vectors.shape[1]), generator=generator).to(vectors) * 2 - 1
    degree = torch.bincount(torch.cat([subject, object_]), minlength=len(vectors)).clamp(min=1).to(vectors)
    length = vectors.norm(dim=1, keepdim=True)
    for _ in range(ROUNDS):
        said = vectors / degree.sqrt()[:, None]
        gathered = torch.zeros_like(vectors)
        gathered.index_add_(0, subject, said[object_] * signs[0, predicate])
        gathered.index_add_(0, object_, said[subject] * signs[1, predicate])
        vectors = _of_length_one(_of_length_one(gathered) + OWN * _of_length_one(vectors)) * length
    theory.entities.data.copy_(vectors)


def _of_length_one(vectors: Tensor) -> Tensor:
    return torch.div(vectors, vectors.norm(dim=1, keepdim=True).clamp(min=torch.finfo(vectors.dtype).tiny))
