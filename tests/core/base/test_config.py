"""Settings that are wrong are told by their names."""

from typing import Any

import pytest

from ctp_core.errors import ConfigError
from ctp_core.methods import checked_config


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"method": "proofs", "epochs": "many", "epoch": 1}, "method 'proofs': epochs: Input should be a valid"),
        ({"method": "proofs", "epochs": 1, "epoch": 1}, "method 'proofs': epoch: Extra inputs"),
        ({"method": "hybrid", "proofs": {"method": "rules", "sample": 0}}, "method 'hybrid': proofs.sample: Input"),
        ({"method": "proofs", "templates": {"2": 0}}, "templates.2: Input should be greater than or equal to 1"),
        ({"method": "proofs", "templates": {"6": 10**9}}, "templates.6: Input should be less than or equal to 256"),
        ({"method": "proofs", "ranked": "hidden"}, "method 'proofs': settings: .*hidden_facts"),
        ({"method": "prooofs"}, "method 'prooofs' does not work on a KB of kind 'facts': choose from proofs, "),
        ({}, "method None does not work on a KB of kind 'facts': choose from proofs, "),
    ],
)
def test_a_wrong_setting_is_told_by_the_name_it_was_given_by(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        checked_config("facts", values)
