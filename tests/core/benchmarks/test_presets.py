"""Every preset takes its first step on every benchmark KB that is shipped."""

import pytest
import torch

from ctp_core.base.trainer import Progress
from ctp_core.benchmarks.data import read_benchmark
from ctp_core.kb.profile import Profile
from ctp_core.methods import presets
from ctp_core.registry import create_trainer
from service.samples import BENCHMARKS, FOLDER


class FirstStepTaken(Exception):
    pass


def stop(progress: Progress) -> None:
    assert progress.loss == progress.loss  # no NaN
    raise FirstStepTaken


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_preset_takes_its_first_step(name: str) -> None:
    kb = read_benchmark(FOLDER, name)
    for config in presets(Profile.of(kb)).values():
        with pytest.raises(FirstStepTaken):
            create_trainer(config, kb, torch.device("cpu")).train_epoch(stop)
