"""Parametrises tests over many variants: a few in every run, all of them in the whole suite."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def slow_but(quick: Collection[Any], variants: Iterable[Any]) -> list[Any]:
    """Marks every variant as slow but those in `quick`; a variant is one value, or a tuple of several."""
    return [
        pytest.param(*_values(variant), marks=[] if variant in quick else [pytest.mark.slow]) for variant in variants
    ]


def _values(variant: Any) -> tuple[Any, ...]:
    return variant if isinstance(variant, tuple) else (variant,)
