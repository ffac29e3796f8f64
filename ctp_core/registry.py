"""The one table of models: (kind, method) -> its classes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

import torch

from ctp_core.artifact import Artifact, check_consistent
from ctp_core.base.config import BaseConfig, SearchedConfig
from ctp_core.base.facts_model import FactsModel
from ctp_core.base.graphs_model import GraphsModel
from ctp_core.base.model import Model
from ctp_core.base.search import SearchTrainer
from ctp_core.base.trainer import Trainer
from ctp_core.ctp_facts.config import CtpFactsConfig
from ctp_core.ctp_facts.model import CtpFactsModel
from ctp_core.ctp_facts.trainer import CtpFactsTrainer
from ctp_core.ctp_graphs.config import CtpGraphsConfig
from ctp_core.ctp_graphs.model import CtpGraphsModel
from ctp_core.ctp_graphs.trainer import CtpGraphsTrainer
from ctp_core.embeddings.config import EMBEDDINGS
from ctp_core.embeddings.model import EmbeddingModel
from ctp_core.embeddings.trainer import EmbeddingTrainer
from ctp_core.errors import ArtifactError, ConfigError, UnknownSymbol
from ctp_core.evidence.config import ProofsConfig, RulesConfig
from ctp_core.evidence.proofs_model import ProofsModel
from ctp_core.evidence.rules_model import RulesModel
from ctp_core.evidence.rules_trainer import RulesTrainer
from ctp_core.evidence.trainer import evidence_trainer
from ctp_core.frontier.config import FrontierConfig
from ctp_core.frontier.model import FrontierModel
from ctp_core.frontier.trainer import FrontierTrainer
from ctp_core.hybrid.config import HybridConfig
from ctp_core.hybrid.model import HybridModel
from ctp_core.hybrid.trainer import HybridTrainer
from ctp_core.kb.knowledge_base import FactsKB, GraphsKB, KnowledgeBase
from ctp_core.kb.profile import Profile
from ctp_core.methods import find_method, search_space
from ctp_core.networks.config import CONFIGS as NETWORK_CONFIGS
from ctp_core.networks.model import NetworkModel
from ctp_core.networks.trainer import NetworkTrainer
from ctp_core.walkers.config import MinervaConfig, NeuralLpConfig
from ctp_core.walkers.minerva import MinervaModel, MinervaTrainer
from ctp_core.walkers.neurallp import NeuralLpModel, NeuralLpTrainer

Config = TypeVar("Config", bound=BaseConfig)
Kb = TypeVar("Kb", FactsKB, GraphsKB)


@dataclass(frozen=True)
class Entry(Generic[Config, Kb]):
    """What a method is made of; `train` is the only place that looks whether config and KB are of its classes."""

    config: type[Config]
    kb: type[Kb]
    model: type[Model]
    trainer: Callable[[Config, Kb, torch.device], Trainer[Model]]

    def train(self, config: BaseConfig, kb: KnowledgeBase, device: torch.device) -> Trainer[Any]:
        """Raises ConfigError where the settings are those of another kind of KB."""
        if not isinstance(config, self.config) or not isinstance(kb, self.kb):
            raise ConfigError(f"method {config.method!r} on a KB of kind {kb.kind!r} has other settings than these")
        return self.trainer(config, kb, device)


@overload
def entry(
    config: type[Config],
    kb: type[FactsKB],
    model: type[FactsModel],
    trainer: Callable[[Config, FactsKB, torch.device], Trainer[FactsModel]],
) -> Entry[Any, Any]: ...
@overload
def entry(
    config: type[Config],
    kb: type[GraphsKB],
    model: type[GraphsModel],
    trainer: Callable[[Config, GraphsKB, torch.device], Trainer[GraphsModel]],
) -> Entry[Any, Any]: ...
def entry(config: Any, kb: Any, model: Any, trainer: Any) -> Entry[Any, Any]:
    """An Entry whose types mypy checks row by row: config, KB, model and trainer must belong together."""
    return Entry(config, kb, model, trainer)


MODELS: dict[tuple[str, str], Entry[Any, Any]] = {
    ("facts", "proofs"): entry(ProofsConfig, FactsKB, ProofsModel, evidence_trainer),
    ("facts", "rules"): entry(RulesConfig, FactsKB, RulesModel, RulesTrainer),
    ("facts", "hybrid"): entry(HybridConfig, FactsKB, HybridModel, HybridTrainer),
    ("facts", "frontier"): entry(FrontierConfig, FactsKB, FrontierModel, FrontierTrainer),
    ("facts", "ctp"): entry(CtpFactsConfig, FactsKB, CtpFactsModel, CtpFactsTrainer),
    **{
        ("facts", method): entry(config, FactsKB, EmbeddingModel, EmbeddingTrainer)
        for method, config in EMBEDDINGS.items()
    },
    ("facts", "neurallp"): entry(NeuralLpConfig, FactsKB, NeuralLpModel, NeuralLpTrainer),
    ("facts", "minerva"): entry(MinervaConfig, FactsKB, MinervaModel, MinervaTrainer),
    ("graphs", "ctp"): entry(CtpGraphsConfig, GraphsKB, CtpGraphsModel, CtpGraphsTrainer),
    **{
        ("graphs", method): entry(config, GraphsKB, NetworkModel, NetworkTrainer)
        for method, config in NETWORK_CONFIGS.items()
    },
}


@overload
def create_trainer(config: BaseConfig, kb: FactsKB, device: torch.device) -> Trainer[FactsModel]: ...
@overload
def create_trainer(config: BaseConfig, kb: GraphsKB, device: torch.device) -> Trainer[GraphsModel]: ...
def create_trainer(config: BaseConfig, kb: KnowledgeBase, device: torch.device) -> Trainer[Any]:
    """Raises ConfigError where the method or a setting does not work on this kind of KB."""
    find_method(kb.kind, config.method)
    entry = MODELS[kb.kind, config.method]
    if isinstance(config, SearchedConfig) and isinstance(kb, FactsKB) and config.search:
        space = search_space(config, Profile.of(kb))
        if space is not None:
            return SearchTrainer(config, kb, lambda one, on: entry.train(one, on, device), space)
    return entry.train(config, kb, device)


def load_model(artifact: Artifact, device: torch.device) -> Model:
    """The model that `Model.to_artifact` wrote; its manifest names `kind` and `config.method`.

    Raises ArtifactError where the files are not those of a model, or contradict each other.
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
