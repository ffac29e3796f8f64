"""Several evidence heads that learn side by side; their mean is itself one evidence head."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ctp_core.evidence.proofs_head import EvidenceHead, inverse_softplus


class Ensemble(nn.Module):
    """The mean of the logits of heads that differ in their random start: steadier than any of them."""

    def __init__(self, heads: list[EvidenceHead]) -> None:
        super().__init__()
        self.members = nn.ModuleList(heads)

    @property
    def heads(self) -> list[EvidenceHead]:
        return [head for head in self.members if isinstance(head, EvidenceHead)]

    def logits(
        self, tables: Float[Tensor, "atom entity entity"], goals: Int[Tensor, " goal"]
    ) -> Float[Tensor, "goal entity entity"]:
        return torch.stack([head.logits(tables, goals) for head in self.heads]).mean(0)

    def merged(self) -> EvidenceHead:
        """One head with the reformulators of all, each at its share of the weight: the same logits, the same proofs."""
        heads = self.heads
        if len(heads) == 1:
            return heads[0]
        first = heads[0]
        widths = {template: len(heads) * width for template, width in first.templates.items()}
        sizes, how = (first.num_predicates, widths), (first.saturation, first.counting)
        merged = EvidenceHead(*sizes, torch.Generator(), first.bias.device, 1.0, *how)
        with torch.no_grad():
            for name in map(str, widths):
                merged.attention_logits[name].copy_(torch.cat([h.attention_logits[name] for h in heads], 1))
                strengths = torch.cat([nn.functional.softplus(h.weights[name]) for h in heads], 1)
                merged.weights[name].copy_(inverse_softplus(strengths / len(heads)))
            merged.bias.copy_(torch.stack([head.bias for head in heads]).mean(0))
            merged.loop_bias.copy_(torch.stack([head.loop_bias for head in heads]).mean(0))
        return merged.requires_grad_(False)
