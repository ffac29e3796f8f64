"""Settings of the Conditional Theorem Prover."""

from typing import Literal

from ctp_core.config.base import BaseConfig


class CtpConfig(BaseConfig):
    """The paper's model."""

    method: Literal["ctp"] = "ctp"
