"""The knowledge bases that the service begins with."""

import pytest

from ctp_core.errors import DataError
from service.samples import SAMPLES, read_sample


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_can_be_read(name: str) -> None:
    splits = read_sample(name).kb.splits
    assert set(splits) == ({"train"} if name == "family" else {"train", "valid", "test"})


def test_a_name_that_no_sample_has_is_not_taken_for_another() -> None:
    with pytest.raises(DataError, match="'famly' is unknown"):
        read_sample("famly")
