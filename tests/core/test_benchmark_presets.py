"""Every preset takes its first step on every benchmark KB that is shipped."""

import pytest
import torch

from ctp_core.config import Profile, presets
from ctp_core.datasets.kb import FactsKB
from ctp_core.models.registry import create_trainer
from ctp_core.symbols import Fact
from ctp_core.training.trainer import Progress
from service.samples import FOLDER, SAMPLES


class FirstStepTaken(Exception):
    pass


def stop(progress: Progress) -> None:
    assert progress.loss == progress.loss  # no NaN
    raise FirstStepTaken


def sample(name: str) -> FactsKB:
    splits = {
        split: [Fact(*line.split("\t")) for line in (FOLDER / path).read_text().splitlines() if line]
        for split, path in SAMPLES[name].items()
    }
    return FactsKB.from_facts(splits)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "family"])
def test_every_preset_takes_its_first_step(name: str) -> None:
    kb = sample(name)
    for config in presets(Profile.of(kb)).values():
        with pytest.raises(FirstStepTaken):
            create_trainer(config, kb, torch.device("cpu")).train_epoch(stop)
