"""What all configs share, and how a fault that pydantic found is traced to its setting.

A setting that several families have is a type here: its range and its text are written once, and each config gives it
the default that suits its method.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError, SchemaValidator

from ctp_core.presets import DEFAULT_PRESET, PRESETS

MAX_SEED = 2**31 - 1
STORED = "stored"  # the validation context of a config that this program wrote, perhaps in an earlier version

Epochs = Annotated[
    int,
    Field(
        ge=1,
        le=10_000,
        description="Maximum number of passes over the training data, 1 to 10,000. More passes take longer; past a "
        "point they stop helping.",
    ),
]
EvalEvery = Annotated[
    int,
    Field(
        ge=1,
        le=10_000,
        description="Epochs between two checks on the validation data, 1 to 10,000. The model keeps the weights of its "
        "best check, so frequent checks choose more finely but take time.",
    ),
]
LearningRate = Annotated[
    float,
    Field(
        gt=0,
        le=10,
        description="Size of one learning step, above 0 and up to 10. Larger steps learn faster, but too large a "
        "value makes the training diverge.",
    ),
]
Dim = Annotated[
    int,
    Field(
        ge=1,
        le=4096,
        description="Length of the vectors that stand for predicates and entities, 1 to 4096. Longer vectors can tell "
        "more apart, and cost more time and memory.",
    ),
]
Schedule = Annotated[
    Literal["one-cycle", "constant"],
    Field(
        description="How the learning rate changes during training: `constant` keeps it; `one-cycle` raises it at the "
        "start and lets it fall to almost nothing at the end."
    ),
]
Optimiser = Annotated[
    Literal["adam", "adagrad"],
    Field(
        description="Algorithm that makes the learning steps: `adagrad`, whose steps shrink as it goes on, or `adam`."
    ),
]
GraphsBatch = Annotated[
    int,
    Field(
        ge=1,
        le=100_000,
        description="Graphs in one learning step, 1 to 100,000. Larger batches make fewer and steadier steps and need "
        "more memory.",
    ),
]
EnoughSteps = Annotated[
    int | None,
    Field(
        ge=1,
        le=1_000_000,
        description="Learning steps that are enough, 1 to 1,000,000: with many graphs, fewer epochs are made. More "
        "steps learn more and take longer. null: all `epochs` are made.",
    ),
]
Distinct = Annotated[
    bool,
    Field(
        description="Train on each distinct graph once, weighted by how often it occurs, instead of on every row: "
        "faster where many graphs are alike."
    ),
]
WeightPower = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        description="How much repeated graphs count, 0 to 1: a graph that occurs n times weighs n to this power. At 0 "
        "all distinct graphs count alike, at 1 as often as they occur.",
    ),
]
BudgetSeconds = Annotated[
    float | None,
    Field(
        gt=0,
        le=1_000_000,
        description="Work that the search for settings and the training may take together, in seconds of one core, "
        "above 0 and up to 1,000,000. More tries more settings and trains longer. null: as much as preset `fast` has "
        "for a KB of this size.",
    ),
]


def renamed_setting(old: str, new: str) -> PydanticCustomError:
    text = f"the setting `{old}` is called `{new}` now"
    return PydanticCustomError("renamed_setting", "{text}", {"text": text})


class BaseConfig(BaseModel):
    """Frozen and strict: an unknown key is an error, so that a typo never trains the wrong model."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    explainable: ClassVar[bool] = True  # whether answers of this method have proofs
    on_other_kbs: ClassVar[bool] = False  # whether its models answer on another KB than their own (`Model.on`)
    # Settings that earlier versions stored -> the name they have now, or None where they had no effect.
    former: ClassVar[Mapping[str, str | None]] = {}

    method: str
    seed: int = Field(
        default=0,
        ge=0,
        le=MAX_SEED,
        description=f"Number that all random choices follow from, 0 to {MAX_SEED}. The same seed on the same KB gives "
        "the same model.",
    )
    epochs: Epochs = 50

    @classmethod
    def stored(cls, values: Any) -> Self:
        """The config of an artifact, a checkpoint or a database row, which an earlier version may have written.

        Settings that such a version did not have take their defaults, and numbers may be larger than this version
        accepts. Raises pydantic's ValidationError.
        """
        config: Self = _unbounded(cls).validate_python(values, context=STORED)
        return config

    @classmethod
    def foreign(cls, values: Any) -> Self:
        """The config of an artifact from elsewhere: as `stored`, but with numbers that a request may have."""
        return cls.model_validate(values, context=STORED)

    @model_validator(mode="before")
    @classmethod
    def _read_former_names(cls, values: Any, info: ValidationInfo) -> Any:
        if not isinstance(values, dict) or cls.former.keys().isdisjoint(values):
            return values
        if info.context == STORED:
            now = {name: cls.former.get(name, name) for name in values}
            return {now[name]: value for name, value in values.items() if now[name] is not None}
        for old, new in cls.former.items():
            if old in values and new is not None:
                raise renamed_setting(old, new)
        return values


@cache
def _unbounded(config: type[BaseConfig]) -> SchemaValidator:
    """Reads a config, and those of its parts, whatever the greatest values of their numbers are now."""
    # Otherwise the parts are read by the validators that pydantic has made for their classes, with all bounds.
    return SchemaValidator(_without_greatest(config.__pydantic_core_schema__), _use_prebuilt=False)


def _without_greatest(schema: Any) -> Any:
    if isinstance(schema, dict):
        is_number = schema.get("type") in ("int", "float")
        return {key: _without_greatest(part) for key, part in schema.items() if not (is_number and key == "le")}
    return [_without_greatest(part) for part in schema] if isinstance(schema, list) else schema


class SearchedConfig(BaseConfig):
    """A config whose settings may be chosen by measuring some of them on the KB itself."""

    budget_seconds: BudgetSeconds = None
    search: tuple[str, ...] = Field(
        default=(),
        description="Names of the settings that are chosen by trying several values on held-out facts of the KB. "
        "Settings that you give are taken out. Empty: all settings are used as given.",
    )

    def with_searched(self, values: Mapping[str, Any]) -> Self:
        """The same with those of the values whose settings are searched; what a user gave stays."""
        return self.model_copy(update={name: value for name, value in values.items() if name in self.search})

    def budget(self, num_facts: int) -> float:
        """Seconds of one core for the search and the training, on a KB with so many training facts."""
        return self.budget_seconds or PRESETS[DEFAULT_PRESET].budget_seconds(num_facts)

    @model_validator(mode="after")
    def _searches_its_own_settings(self) -> Self:
        unknown = [name for name in self.search if name not in type(self).model_fields]
        if unknown:
            raise ValueError(f"`search` names {', '.join(unknown)}, which is not a setting of this method")
        return self


class GraphsConfig(BaseConfig):
    """How any method is trained on a KB of graphs; the defaults are the published ones of the prover."""

    optimiser: Optimiser = "adagrad"
    schedule: Schedule = "constant"
    learning_rate: LearningRate = 0.1
    batch_size: GraphsBatch = 16
    steps: EnoughSteps = None
    distinct: Distinct = False
    weight_power: WeightPower = 1.0
    validation: float = Field(
        default=0.0,
        ge=0,
        le=0.5,
        description="Share of the training graphs held out for validation where the KB has no validation split, 0 to "
        "0.5. A larger share chooses the best epoch more reliably and leaves less to learn from.",
    )
    patience: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Validations without improvement after which training stops early, 1 to 10,000. More trains longer "
        "and misses fewer late improvements. null: never stop early.",
    )
    eval_every: EvalEvery = 10


Model = type[BaseModel]
Part = int | str


def parts_with_models(model: Model | None, loc: tuple[Part, ...]) -> Iterator[tuple[Part, Model | None]]:
    """The parts of a place, each with the model of the object that stands there, if it is one.

    Left out are the tags that pydantic puts behind a field which holds one of several models: whoever gave
    `{"proofs": {"epochs": 0}}` finds nothing at `proofs.rules.epochs`.
    """
    parts = iter(loc)
    for part in parts:
        if isinstance(part, str):
            field = model.model_fields.get(part) if model else None
            models = list(_models(field.annotation)) if field else []
            tagged = field.discriminator if field else None
            if isinstance(tagged, str):
                tag = next(parts, None)
                models = [one for one in models if tag in get_args(one.model_fields[tagged].annotation)]
            model = models[0] if models else None
        yield part, model


def _models(annotation: Any) -> Iterator[Model]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)
