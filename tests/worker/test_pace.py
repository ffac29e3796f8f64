"""How long a training says that it will take."""

from types import SimpleNamespace

import pytest

from ctp_core.base.trainer import Progress
from worker import heart
from worker.heart import Pace

NOW = 1000.0


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands still: however slow the machine is, no time passes between the start and the look at it."""
    monkeypatch.setattr(heart, "time", SimpleNamespace(monotonic=lambda: NOW))


def pace(begun_at: int, seconds: float) -> Pace:
    return Pace(begun_at, NOW - seconds)


def test_the_time_left_follows_from_the_epochs_that_are_done() -> None:
    assert pace(0, 10).values(Progress(epoch=5, epochs=20, step=3, steps=3, loss=0.0))["eta_seconds"] == 30.0


def test_steps_within_an_epoch_count() -> None:
    assert pace(0, 10).values(Progress(epoch=0, epochs=2, step=1, steps=2, loss=0.0))["eta_seconds"] == 30.0


def test_a_resumed_run_does_not_count_what_others_did() -> None:
    assert pace(8, 10).values(Progress(epoch=10, epochs=12, step=3, steps=3, loss=0.0))["eta_seconds"] == 10.0


def test_before_anything_is_done_nothing_is_promised() -> None:
    assert pace(0, 10).values(Progress(epoch=0, epochs=2, step=0, steps=2, loss=0.0))["eta_seconds"] is None
