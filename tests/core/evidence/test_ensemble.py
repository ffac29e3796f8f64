"""The mean of several heads as one head."""

import torch

from ctp_core.evidence.ensemble import Ensemble
from ctp_core.rules import Template
from tests.core.evidence.test_proofs_head import NUM_PREDICATES, How, new_head, random_facts, tables_of, ways


@ways
def test_the_merged_head_scores_like_the_mean_of_its_members(how: How) -> None:
    ensemble = Ensemble([new_head(seed, how) for seed in range(3)])
    with torch.no_grad():
        for number, head in enumerate(ensemble.heads):
            for parameter in head.parameters():
                parameter.add_(number)
        tables, goals = tables_of(random_facts(5)), torch.arange(NUM_PREDICATES)
        merged = ensemble.merged().double()
        assert merged.templates[Template(2)] == 3 * ensemble.heads[0].templates[Template(2)]
        assert torch.allclose(merged.logits(tables, goals), ensemble.logits(tables, goals), atol=1e-5)
