"""How well a model of facts predicts the facts of a split."""

import numpy as np

from ctp_core.datasets.kb import FactsKB
from ctp_core.evaluation.auc_pr import auc_pr
from ctp_core.evaluation.ranking import known_filters, rank_facts, rank_facts_by_each, ranking_metrics
from ctp_core.models.facts_model import FactsModel
from ctp_core.models.hybrid import HybridModel


def ranking(model: FactsModel, kb: FactsKB, split: str) -> dict[str, float]:
    """Filtered MRR and Hits@k, both directions; the facts of this split and of those before it filter."""
    filters = known_filters(kb, split)
    return ranking_metrics(rank_facts(kb.splits[split], model.object_logits, model.subject_logits, filters))


def hybrid_ranking(model: HybridModel, kb: FactsKB, split: str) -> dict[str, float]:
    """The same of a hybrid and, as `proofs_mrr`, `embedding_mrr`, …, of its parts, each of which scores once."""
    ranks = rank_facts_by_each(kb.splits[split], model.object_parts, model.subject_parts, known_filters(kb, split))
    return {f"{part}{name}": value for part, each in ranks.items() for name, value in ranking_metrics(each).items()}


def countries_auc_pr(model: FactsModel, kb: FactsKB, split: str, regions: list[str]) -> float:
    """AUC-PR over exactly the countries of a split × the regions."""
    facts = kb.splits[split]
    countries = np.unique(facts[:, 0])
    region_ids = np.array([kb.entities.id(region) for region in regions])
    logits = model.object_logits(countries, np.full(len(countries), facts[0, 1]))[:, region_ids]
    true = np.zeros(logits.shape, dtype=bool)
    for country, _, region in facts.tolist():
        true[np.searchsorted(countries, country), np.flatnonzero(region_ids == region)] = True
    return auc_pr(logits.ravel(), true.ravel())
