"""Tags of a model: short notes for people and programs."""

from typing import Annotated

from pydantic import Field

Tags = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=1024)]], Field(max_length=32)
]
