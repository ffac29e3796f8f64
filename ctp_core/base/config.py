"""What all configs share, and how a fault that pydantic found is traced to its setting."""

from collections.abc import Iterator
from typing import Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, Field

MAX_SEED = 2**31 - 1


class BaseConfig(BaseModel):
    """Frozen and strict: an unknown key is an error, so that a typo never trains the wrong model."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    explainable: ClassVar[bool] = True  # whether answers of this method have proofs

    method: str
    seed: int = Field(default=0, ge=0, le=MAX_SEED, description="Same seed, same KB: the same model.")
    epochs: int = Field(default=50, ge=1, le=10_000, description="Passes over the training data at most.")


Model = type[BaseModel]
Part = int | str


def walk(model: Model | None, loc: tuple[Part, ...]) -> Iterator[tuple[Part, Model | None]]:
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
