"""Small models that logical questions are asked of, one for each way of scoring."""

from functools import cache

import torch

from ctp_core.base.config import BaseConfig
from ctp_core.base.facts_model import FactsModel
from ctp_core.ctp_facts.config import CtpFactsConfig
from ctp_core.embeddings.config import ComplexConfig
from ctp_core.evidence.config import ProofsConfig
from ctp_core.hybrid.config import HybridConfig
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.registry import create_trainer
from ctp_core.symbols import Fact
from ctp_core.walkers.config import NeuralLpConfig

FACTS = [
    Fact("aspirin", "treats", "pain"),
    Fact("ibuprofen", "treats", "pain"),
    Fact("aspirin", "targets", "cox"),
    Fact("ibuprofen", "targets", "cox"),
    Fact("cox", "causes", "pain"),
    Fact("cox", "causes", "fever"),
    Fact("salt", "causes", "salt"),
]
KB = FactsKB.from_facts({"train": FACTS, "valid": [Fact("aspirin", "treats", "fever")]})
CONFIGS: dict[str, BaseConfig] = {
    "proofs": ProofsConfig(templates={"1": 2, "2": 3}, epochs=4),
    "complex": ComplexConfig(rank=4, epochs=3),
    "hybrid": HybridConfig(proofs=ProofsConfig(templates={"1": 2, "2": 2}, epochs=3), embedding=ComplexConfig(rank=4)),
    "ctp": CtpFactsConfig(templates=("0", "2"), dim=4, epochs=2, batch_size=8),
    "neurallp": NeuralLpConfig(dim=4, epochs=2, length=2),
}


@cache
def model_of(method: str) -> FactsModel:
    model = create_trainer(CONFIGS[method], KB, torch.device("cpu")).fit()
    assert isinstance(model, FactsModel)
    return model
