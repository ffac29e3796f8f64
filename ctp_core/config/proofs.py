"""Settings of the model that adds the evidence of all proofs."""

from typing import Literal

from ctp_core.config.base import BaseConfig


class ProofsConfig(BaseConfig):
    """Link prediction by proofs alone."""

    method: Literal["proofs"] = "proofs"
