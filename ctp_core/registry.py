"""The one table of models: (kind, method) -> its classes."""

from dataclasses import dataclass

import torch

from ctp_core.artifact import Artifact, check_consistent
from ctp_core.base.model import Model
from ctp_core.base.trainer import Trainer
from ctp_core.ctp_facts.model import CtpFactsModel
from ctp_core.ctp_facts.trainer import CtpFactsTrainer
from ctp_core.ctp_graphs.model import CtpGraphsModel
from ctp_core.ctp_graphs.trainer import GraphsTrainer
from ctp_core.embeddings.model import ComplexModel, DistMultModel
from ctp_core.embeddings.trainer import EmbeddingTrainer
from ctp_core.errors import ArtifactError, UnknownSymbol
from ctp_core.evidence.proofs_model import ProofsModel
from ctp_core.evidence.rules_model import RulesModel
from ctp_core.evidence.rules_trainer import RulesTrainer
from ctp_core.evidence.trainer import ProofsTrainer
from ctp_core.hybrid.model import HybridModel
from ctp_core.hybrid.trainer import HybridTrainer
from ctp_core.kb.knowledge_base import KnowledgeBase
from ctp_core.methods import BaseConfig, check_kind
from ctp_core.networks.config import NETWORKS
from ctp_core.networks.model import NetworkModel
from ctp_core.networks.trainer import NetworkTrainer
from ctp_core.walkers.minerva import MinervaModel, MinervaTrainer
from ctp_core.walkers.neurallp import NeuralLpModel, NeuralLpTrainer


@dataclass(frozen=True)
class Entry:
    """A model's class, and the trainer that is called with (config, kb, device)."""

    model: type[Model]
    trainer: type[Trainer]


MODELS: dict[tuple[str, str], Entry] = {
    ("facts", "proofs"): Entry(ProofsModel, ProofsTrainer),
    ("facts", "rules"): Entry(RulesModel, RulesTrainer),
    ("facts", "hybrid"): Entry(HybridModel, HybridTrainer),
    ("facts", "ctp"): Entry(CtpFactsModel, CtpFactsTrainer),
    ("facts", "complex"): Entry(ComplexModel, EmbeddingTrainer),
    ("graphs", "ctp"): Entry(CtpGraphsModel, GraphsTrainer),
    ("facts", "distmult"): Entry(DistMultModel, EmbeddingTrainer),
    ("facts", "neurallp"): Entry(NeuralLpModel, NeuralLpTrainer),
    ("facts", "minerva"): Entry(MinervaModel, MinervaTrainer),
    **{("graphs", method): Entry(NetworkModel, NetworkTrainer) for method in NETWORKS},
}


def create_trainer(config: BaseConfig, kb: KnowledgeBase, device: torch.device) -> Trainer:
    """Raises ConfigError where the method or a setting does not work on this kind of KB."""
    check_kind(config, kb.kind)
    return MODELS[kb.kind, config.method].trainer(config, kb, device)


def load_model(artifact: Artifact, device: torch.device) -> Model:
    """The model that `Model.to_artifact` wrote; its manifest names `kind` and `config.method`.

    Raises ArtifactError where the files are of no model, or contradict each other.
    """
    config = artifact.manifest.get("config")
    key = (str(artifact.manifest.get("kind")), str(config.get("method") if isinstance(config, dict) else None))
    if key not in MODELS:
        raise ArtifactError(f"no model of kind {key[0]!r} and method {key[1]!r} is known to this version")
    check_consistent(artifact)
    try:
        return MODELS[key].model.from_artifact(artifact, device)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, UnknownSymbol) as error:
        raise ArtifactError(f"the parts of the model do not go together ({type(error).__name__}: {error})") from error
