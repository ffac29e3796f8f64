"""What can be trained: the settings of each (kind, method). Imports no torch, as the API reads it.

Everything that names methods (the page, the terminal, the benchmarks, `GET /presets`) reads the table here.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

from pydantic import ValidationError

from ctp_core.base.config import BaseConfig, SearchedConfig, parts_with_models
from ctp_core.base.cost import Forecast
from ctp_core.base.halving import Space
from ctp_core.ctp_facts import candidates as ctp_facts
from ctp_core.ctp_facts.config import CtpFactsConfig
from ctp_core.ctp_facts.cost import forecast as forecast_ctp_facts
from ctp_core.ctp_graphs.config import CtpGraphsConfig, ctp_graphs_preset
from ctp_core.ctp_graphs.cost import forecast as forecast_ctp_graphs
from ctp_core.embeddings import candidates as embeddings
from ctp_core.embeddings.config import EMBEDDINGS
from ctp_core.embeddings.cost import forecast as forecast_embedding
from ctp_core.errors import ConfigError
from ctp_core.evidence import candidates as evidence
from ctp_core.evidence.config import ProofsConfig, RulesConfig
from ctp_core.evidence.cost import forecast as forecast_evidence
from ctp_core.frontier import candidates as frontier
from ctp_core.frontier.config import FrontierConfig
from ctp_core.frontier.cost import forecast as forecast_frontier
from ctp_core.hybrid.config import HybridConfig, hybrid_preset
from ctp_core.hybrid.cost import one_after_the_other
from ctp_core.kb.knowledge_base import Kind
from ctp_core.kb.profile import Profile
from ctp_core.networks.config import CONFIGS as NETWORK_CONFIGS
from ctp_core.networks.config import network_preset
from ctp_core.networks.cost import forecast as forecast_network
from ctp_core.presets import PRESETS, Preset, find_preset
from ctp_core.select.registry import FIXED_RULES, VARIANTS, SelectName
from ctp_core.walkers.config import MinervaConfig, NeuralLpConfig, minerva_preset, neurallp_preset
from ctp_core.walkers.cost import forecast as forecast_walker


@dataclass(frozen=True)
class Method:
    """A sentence for people, the class of the settings, and the settings of each preset for the profile of a KB."""

    text: str
    config: type[BaseConfig]
    preset: Callable[[Profile, Preset], BaseConfig]
    # What a training with these settings will cost on a KB of this profile, and what to change so that it needs less
    # memory. The functions are in each family's `cost.py`.
    forecast: Callable[[Any, Profile], Forecast]
    saving: str
    # `preset` for a given `select`, in methods that have one.
    preset_of_select: Callable[[Profile, Preset, SelectName], BaseConfig] | None = None
    # The settings to try where some are searched, at full effort and the most promising first; and cheaper settings
    # that tell as much as possible about the full ones.
    candidates: Callable[[Any, Profile], Sequence[BaseConfig]] | None = None
    at_effort: Callable[[Any, float], BaseConfig] | None = None


NETWORK_TEXTS = {
    "lstm": "Recurrent network with long short-term memory that reads the facts in order; no proofs.",
    "gru": "Recurrent network with gated units that reads the facts in order; no proofs.",
    "rnn": "Plain recurrent network that reads the facts in order; no proofs.",
    "cnn": "Convolutional network over the facts in order; no proofs.",
    "cnnh": "Convolutional network with highway layers; no proofs.",
    "mha": "Self-attention over the facts, with an LSTM on top; no proofs.",
    "gat": "Graph attention network; no proofs.",
    "gcn": "Graph convolutional network; no proofs.",
}


# What to change so that a training needs less memory.
PROOFS_SAVING = "lower `batch_size` or the numbers in `templates`, or use method 'rules' or 'complex'"
RULES_SAVING = "lower `sample`, `rules_per_template` or `max_length`"
EMBEDDING_SAVING = "lower `rank` or `batch_size`, or set `negatives`"
HYBRID_SAVING = "lower `embedding.rank` or the settings of `proofs`, or use method 'rules'"
CTP_SAVING = (
    "lower `batch_size`, `train_depth` or `depth`, list fewer `templates`, or use neighbours 'nearest' on facts"
)
FRONTIER_SAVING = "lower `batch_size`, `facts_per_step`, `width` or `dim`"
WALKER_SAVING = "lower `batch_size`, `beam` or `rank`, or use method 'rules' or 'complex'"
NETWORK_SAVING = "lower `batch_size`, `dim` or `hidden`"


def _network(method: str) -> Method:
    def settings(profile: Profile, preset: Preset) -> BaseConfig:
        del profile
        return network_preset(method, preset)

    return Method(NETWORK_TEXTS[method], NETWORK_CONFIGS[method], settings, forecast_network, NETWORK_SAVING)


def _embedding(method: str) -> Method:
    return Method(
        EMBEDDINGS[method].text,
        EMBEDDINGS[method],
        partial(embeddings.embedding_preset, method),
        forecast_embedding,
        EMBEDDING_SAVING,
        candidates=embeddings.candidates,
        at_effort=embeddings.at_effort,
    )


def _evidence(
    text: str, config: type[BaseConfig], preset: Callable[[Profile, Preset], BaseConfig], saving: str
) -> Method:
    return Method(
        text,
        config,
        preset,
        forecast_evidence,
        saving,
        candidates=evidence.candidates,
        at_effort=evidence.at_effort,
    )


def _forecast_hybrid(config: HybridConfig, profile: Profile) -> Forecast:
    return one_after_the_other({name: forecast(config.part(name), profile) for name in config.parts}, profile)


METHODS: dict[tuple[Kind, str], Method] = {
    ("facts", "proofs"): _evidence(
        "Weighted rules whose proofs add up.", ProofsConfig, evidence.proofs_preset, PROOFS_SAVING
    ),
    ("facts", "hybrid"): Method(
        "Proofs with an embedding added: the most accurate.",
        HybridConfig,
        hybrid_preset,
        _forecast_hybrid,
        HYBRID_SAVING,
    ),
    ("facts", "frontier"): Method(
        "Follows the facts that look most promising for each question; answers about entities never seen.",
        FrontierConfig,
        frontier.frontier_preset,
        forecast_frontier,
        FRONTIER_SAVING,
        candidates=frontier.candidates,
        at_effort=frontier.at_effort,
    ),
    **{("facts", method): _embedding(method) for method in EMBEDDINGS},
    ("facts", "ctp"): Method(
        "The paper's prover: rules made for each question, entities that may stand in for similar ones.",
        CtpFactsConfig,
        ctp_facts.ctp_facts_preset,
        forecast_ctp_facts,
        CTP_SAVING,
        ctp_facts.ctp_facts_preset,
        candidates=ctp_facts.candidates,
        at_effort=ctp_facts.at_effort,
    ),
    ("facts", "neurallp"): Method(
        "NeuralLP: learns which walks along facts lead to the answer; lists rules, no proofs.",
        NeuralLpConfig,
        neurallp_preset,
        forecast_walker,
        WALKER_SAVING,
    ),
    ("facts", "minerva"): Method(
        "MINERVA: a walker that learns where to go for each predicate; no proofs.",
        MinervaConfig,
        minerva_preset,
        forecast_walker,
        WALKER_SAVING,
    ),
    ("facts", "rules"): _evidence(
        "Rules mined from paths between entities, without attention.", RulesConfig, evidence.rules_preset, RULES_SAVING
    ),
    ("graphs", "ctp"): Method(
        "The paper's prover: rules made for each question.",
        CtpGraphsConfig,
        ctp_graphs_preset,
        forecast_ctp_graphs,
        CTP_SAVING,
        ctp_graphs_preset,
    ),
    **{("graphs", method): _network(method) for method in NETWORK_CONFIGS},
}


def methods_of(kind: Kind) -> dict[str, Method]:
    """Name -> method, for a KB of this kind."""
    return {name: method for (known, name), method in METHODS.items() if known == kind}


def method_texts(kind: Kind) -> dict[str, str]:
    """Values of `method` for this kind of KB -> a sentence. `ntp` and `gntp` stand for `ctp` with that `select`."""
    return {name: method.text for name, method in methods_of(kind).items()} | FIXED_RULES


def is_method(name: str) -> bool:
    """Whether any kind of KB has a method of this name."""
    return any(name in method_texts(kind) for kind in get_args(Kind))


def saving(method: str) -> str:
    """What to change so that a training by this method needs less memory."""
    return next((found.saving for (_, name), found in METHODS.items() if name == method), "choose another method")


def presets(profile: Profile) -> dict[str, BaseConfig]:
    """Preset name -> the config it means for a KB of this profile."""
    return {name: preset_for(profile, name, None, None) for name in PRESETS}


def preset_for(profile: Profile, name: str, method: object, select: object) -> BaseConfig:
    """The settings of a preset for one method and one `select`, both as a request gave them, valid or not.

    Where this kind of KB lacks the method, the preset's own method is used. Raises ConfigError where there is no such
    preset.
    """
    preset = find_preset(name)
    known = isinstance(method, str) and (profile.kind, method) in METHODS
    found = METHODS[profile.kind, str(method) if known else preset.methods[profile.kind]]
    if found.preset_of_select and isinstance(select, str) and select in VARIANTS:
        return found.preset_of_select(profile, preset, select)
    return found.preset(profile, preset)


def search_space(config: BaseConfig, profile: Profile) -> Space[Any] | None:
    """What is tried before training with this config; None where all of its settings are given.

    Raises ConfigError where the method has no settings that can be searched.
    """
    if not isinstance(config, SearchedConfig) or not config.search:
        return None
    method = find_method(profile.kind, config.method)
    if method.candidates is None or method.at_effort is None:
        raise ConfigError(f"method {config.method!r} has no settings to search: leave out `search`")
    forecast = method.forecast
    return Space(
        method.candidates(config, profile),
        method.at_effort,
        lambda one: forecast(one, profile).cpu_seconds,
        config.budget(profile.num_facts),
    )


def forecast(config: BaseConfig, profile: Profile) -> Forecast:
    """What a training costs on a KB of this profile, its search included."""
    method = find_method(profile.kind, config.method)
    space = search_space(config, profile)
    if space is None:
        return method.forecast(config, profile)
    full = [method.forecast(one, profile) for one in space.candidates]
    seconds = space.forecast_search() + max(one.cpu_seconds for one in full)
    tried = f"a search among {len(full)} settings, then the costliest of them: " if space.plan() else ""
    basis = tried + max(full, key=lambda one: one.cpu_seconds).basis
    return Forecast(seconds, max(one.peak_bytes for one in full), basis)


def with_settings(base: BaseConfig, given: dict[str, Any]) -> dict[str, Any]:
    """The JSON values of a preset with a user's settings on top; what is given is not searched any more.

    A part of a hybrid is merged setting by setting, unless its method changes.
    """
    values = base.model_dump(mode="json")
    merged = _without_search({**values, **given}, given)
    for name, part in given.items():
        before = getattr(base, name, None)
        if (
            isinstance(before, BaseConfig)
            and isinstance(part, dict)
            and part.get("method", before.method) == before.method
        ):
            merged[name] = with_settings(before, part)
    return merged


def _without_search(values: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    if "search" in given or "search" not in values:
        return values
    return {**values, "search": [name for name in values["search"] if name not in given]}


def find_method(kind: Kind, name: object) -> Method:
    """Looks up a method; raises ConfigError where this kind of KB does not have it."""
    found = METHODS.get((kind, name)) if isinstance(name, str) else None
    if found is None:
        choice = ", ".join(method_texts(kind))
        raise ConfigError(f"method {name!r} does not work on a KB of kind {kind!r}: choose from {choice}")
    return found


def parse_config(kind: Kind, values: dict[str, Any]) -> BaseConfig:
    """A config from JSON values; raises ConfigError or pydantic's ValidationError."""
    found = find_method(kind, values.get("method"))
    _check_read(kind, values["method"], found.config, values)
    return found.config.model_validate(values)


def stored_config(kind: Kind, values: dict[str, Any]) -> BaseConfig:
    """A config that was stored, perhaps by an earlier version; raises ConfigError or pydantic's ValidationError."""
    return find_method(kind, values.get("method")).config.stored(values)


def foreign_config(kind: Kind, values: dict[str, Any]) -> BaseConfig:
    """The config of an artifact from elsewhere: as `stored_config`, but with numbers that a request may have."""
    return find_method(kind, values.get("method")).config.foreign(values)


def checked_config(kind: Kind, values: dict[str, Any]) -> BaseConfig:
    """Like `parse_config`, but raises a ConfigError that names every wrong setting, without its value."""
    try:
        return parse_config(kind, values)
    except ValidationError as error:
        method = values["method"]
        faults = error.errors(include_input=False, include_context=False, include_url=False)
        place = partial(_place, METHODS[kind, method].config)
        said = "; ".join(f"{place(fault['loc']) or 'settings'}: {fault['msg']}" for fault in faults)
        raise ConfigError(f"method {method!r}: {said}") from None


def _place(config: type[BaseConfig], loc: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part, _ in parts_with_models(config, loc))


def _check_read(kind: Kind, method: str, config: type[BaseConfig], names: Iterable[str]) -> None:
    """Raises ConfigError for settings that the method has only on another kind of KB."""
    elsewhere = {name for other in get_args(Kind) if other != kind for name in _settings(other, method)}
    foreign = [f"`{name}`" for name in names if name in elsewhere - config.model_fields.keys()]
    if foreign:
        leave = "leave it out" if len(foreign) == 1 else "leave them out"
        raise ConfigError(f"method {method!r} does not read {', '.join(foreign)} on a KB of kind {kind!r}: {leave}")


def _settings(kind: Kind, method: str) -> Iterable[str]:
    found = METHODS.get((kind, method))
    return found.config.model_fields if found else ()
