"""What versions were trained with, side by side."""

from typing import Any

from ctp_core.kb.knowledge_base import Kind
from ctp_core.methods import parse_config
from service.db.tables import ModelVersion
from service.models.comparison import _settings, differences


def version(kind: Kind = "facts", **config: Any) -> ModelVersion:
    settings = parse_config(kind, config).model_dump(mode="json")
    return ModelVersion(kind=kind, method=settings["method"], config=settings)


def compared(*versions: ModelVersion) -> dict[str, list[Any]]:
    return {row.name: row.values for row in differences([_settings(one) for one in versions])}


def test_the_settings_of_parts_are_compared_one_by_one() -> None:
    one, other = (version(method="hybrid", embedding={"method": "complex", "rank": rank}) for rank in (20, 30))
    assert compared(one, other) == {"embedding.rank": [20, 30]}


def test_what_a_kb_of_this_kind_does_not_read_is_left_out() -> None:
    one, other = (version("graphs", method="ctp", dim=dim) for dim in (20, 30))
    one.config["negatives"], other.config["negatives"] = 2, 3  # version 0.1.0 stored the settings of both kinds
    assert compared(one, other) == {"dim": [20, 30]}


def test_a_setting_that_is_newer_than_a_version_is_no_difference() -> None:
    old, new = version(method="complex", epochs=5), version(method="complex", epochs=3)
    del old.config["weigh_negatives"]
    assert compared(old, new) == {"epochs": [5, 3]}


def test_settings_that_there_no_longer_are_are_shown_as_they_were_stored() -> None:
    old = version(method="complex")
    old.config["forgotten"] = 1
    assert compared(old, version(method="complex")) == {"forgotten": [1, None]}
