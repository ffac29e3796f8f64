"""Settings that the Conditional Theorem Prover has on facts and on graphs alike."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from ctp_core.base.config import BaseConfig, Dim, EvalEvery, LearningRate, Schedule
from ctp_core.errors import CtpError
from ctp_core.prolog_rules import parse_rule
from ctp_core.rules import Template
from ctp_core.select.registry import SelectName, select_text
from ctp_core.tnorm.registry import TNORMS

if TYPE_CHECKING:
    SemiringName = str
else:
    SemiringName = Literal[tuple(TNORMS)]  # read from the registry, so that a new t-norm is named there alone


def _template(text: str) -> str:
    try:
        template = Template.parse(text)
    except CtpError as error:
        raise ValueError(str(error)) from None
    if template.about:
        raise ValueError(f"template {text!r} is about a single entity: use 0, n or nR, such as 1, 1R or 2")
    return str(template)


def _rule(text: str) -> str:
    try:
        parse_rule(text)
    except CtpError as error:
        raise ValueError(str(error)) from None
    return text


TemplateText = Annotated[str, AfterValidator(_template)]
GivenRule = Annotated[str, AfterValidator(_rule)]


class CtpConfig(BaseConfig):
    """Settings of a Conditional Theorem Prover on any KB; the defaults are the paper's."""

    method: Literal["ctp"] = "ctp"
    select: SelectName = Field(default="linear", description=select_text())
    templates: tuple[TemplateText, ...] = Field(
        default=("0", "2"),
        min_length=1,
        max_length=64,
        description="Shapes of the rules to learn, 1 to 64, one rule each: `0` matches facts directly, `n` is a chain "
        "of n facts, `nR` a chain read from object to subject. More entries learn more rules, but take longer.",
    )
    dim: Dim = 50
    slope: float = Field(
        default=1.0,
        gt=0,
        le=1000,
        description="How strictly two vectors must agree to count as the same, above 0 and up to 1000: similarity is "
        "exp(-slope · distance), so a larger value is stricter.",
    )
    memory: int = Field(
        default=32,
        ge=1,
        le=10_000,
        description="For select `memory`: number of stored rules, 1 to 10,000. More can express more and cost more.",
    )
    memory_start: float = Field(
        default=1.0,
        gt=0,
        le=100,
        description="For select `memory`: spread of the stored rules before training, above 0 and up to 100. Near 0, "
        "every stored rule starts close to every predicate.",
    )
    top_k: int = Field(
        default=4,
        ge=1,
        le=1000,
        description="For select `gntp`: rules tried for each question, 1 to 1000. More find more proofs and take "
        "longer.",
    )
    schedule: Schedule = "constant"
    learning_rate: LearningRate = 0.1
    train_depth: int = Field(
        default=2,
        ge=1,
        le=10,
        description="How many times rules may be applied within rules during training, 1 to 10. Deeper proofs teach "
        "longer arguments; time and memory grow quickly.",
    )
    eval_every: EvalEvery = 10
