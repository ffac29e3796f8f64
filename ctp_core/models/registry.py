"""The one table of models: (kind, method) -> its classes."""

from dataclasses import dataclass

import torch

from ctp_core.artifact import Artifact
from ctp_core.config import BaseConfig, check_kind
from ctp_core.config.networks import NETWORKS
from ctp_core.datasets.kb import KnowledgeBase
from ctp_core.errors import ArtifactError, UnknownSymbol
from ctp_core.models.base import Model
from ctp_core.models.consistency import check_consistent
from ctp_core.models.ctp_facts import CtpFactsModel
from ctp_core.models.ctp_graphs import CtpGraphsModel
from ctp_core.models.embeddings import ComplexModel, DistMultModel
from ctp_core.models.hybrid import HybridModel
from ctp_core.models.minerva import MinervaModel
from ctp_core.models.network import NetworkModel
from ctp_core.models.neurallp import NeuralLpModel
from ctp_core.models.proofs import ProofsModel
from ctp_core.models.rules_model import RulesModel
from ctp_core.training.ctp_facts import CtpFactsTrainer
from ctp_core.training.embeddings import EmbeddingTrainer
from ctp_core.training.graphs import GraphsTrainer
from ctp_core.training.hybrid import HybridTrainer
from ctp_core.training.minerva import MinervaTrainer
from ctp_core.training.networks import NetworkTrainer
from ctp_core.training.neurallp import NeuralLpTrainer
from ctp_core.training.proofs import ProofsTrainer
from ctp_core.training.rules import RulesTrainer
from ctp_core.training.trainer import Trainer


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
