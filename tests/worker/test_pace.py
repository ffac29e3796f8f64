"""How far a training says that it is, and how long it says that it will take."""

from collections.abc import Iterator

import pytest

from ctp_core.base.progress import PHASES, Progress
from worker import pace as pace_module
from worker.pace import TRAINING, Pace

AFTER = (1 - TRAINING) / TRAINING  # what follows a training, as a share of it


class Clock:
    """Stands still unless it is told to go on: no figure depends on how slow the machine is."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(pace_module, "time", made)
    return made


def at(epoch: int, epochs: int, step: int = 1, steps: int = 1, phase: str = "fitting") -> Progress:
    return Progress(epoch, epochs, step, steps, 0.0, phase=phase)


def eta(clock: Clock, seconds: float, progress: Progress, begun_at: float | None = 0.0) -> float | None:
    """The time left after a run of so many seconds."""
    pace = Pace(begun_at, clock.now)
    clock.now += seconds
    found: float | None = pace.values(progress)["eta_seconds"]
    return found


def test_the_time_left_follows_from_the_epochs_that_are_done(clock: Clock) -> None:
    assert eta(clock, 10, at(5, 20)) == pytest.approx(30 + 40 * AFTER, abs=0.1)


def test_steps_within_an_epoch_count(clock: Clock) -> None:
    assert eta(clock, 10, at(0, 2, step=1, steps=2)) == pytest.approx(30 + 40 * AFTER, abs=0.1)


def test_the_steps_of_a_validation_are_not_those_of_an_epoch(clock: Clock) -> None:
    whole = eta(clock, 10, at(1, 2))
    assert eta(clock, 10, at(1, 2, step=7, steps=8, phase="validation")) == whole


def test_a_resumed_run_does_not_count_what_others_did(clock: Clock) -> None:
    pace = Pace(None, clock.now)
    clock.now += 60  # reads the KB and the checkpoint
    assert pace.values(at(8, 12))["eta_seconds"] is None
    clock.now += 10
    assert pace.values(at(10, 12))["eta_seconds"] == pytest.approx(10 + 60 * AFTER, abs=0.1)


def test_before_anything_is_done_nothing_is_promised(clock: Clock) -> None:
    assert eta(clock, 10, at(0, 2, step=0, steps=2)) is None
    assert eta(clock, 1, at(0, 0, phase="loading")) is None
    assert eta(clock, 0.5, at(0, 10_000, step=1, steps=2)) is None


def test_a_trainer_that_knows_its_work_is_believed_more_than_its_epochs(clock: Clock) -> None:
    told = Progress(epoch=1, epochs=10, step=0, steps=1, loss=None, phase="search", done=0.5)
    assert eta(clock, 10, told) == pytest.approx(10 + 20 * AFTER, abs=0.1)
    assert Pace(0.0, clock.now).values(told)["done"] == pytest.approx(0.5 * TRAINING)


# (phase, seconds it takes, share of the work of the training that its trainer had forecast)
Phase = tuple[str, float, float]
HISTORIES: dict[str, list[Phase]] = {
    "as forecast": [("search", 30, 0.3), ("mining", 20, 0.2), ("fitting", 40, 0.4), ("constants", 10, 0.1)],
    "search cheaper": [("search", 10, 0.3), ("mining", 20, 0.2), ("fitting", 50, 0.4), ("constants", 10, 0.1)],
    "search dearer": [("search", 60, 0.3), ("mining", 20, 0.2), ("fitting", 40, 0.4), ("constants", 10, 0.1)],
    "one phase": [("fitting", 90, 1.0)],
    "rising cost": [("fitting", 20, 0.5), ("fitting", 30, 0.5)],
}


def run(clock: Clock, phases: list[Phase], rest: float) -> Iterator[tuple[float, float | None]]:
    """(seconds since the start, time left as told) of a job that reports ten times a second."""
    pace, began, done = Pace(0.0, clock.now), clock.now, 0.0
    for phase, seconds, share in phases:
        for tick in range(round(10 * seconds)):
            clock.now += 0.1
            told = Progress(0, 1, 0, 1, None, phase=phase, done=done + share * (tick + 1) / (10 * seconds))
            yield clock.now - began, pace.values(told)["eta_seconds"]
        done += share
    for phase, share in (("calibration", 0.4), ("saving", 0.05), ("rules", 0.55)):
        for tick in range(round(10 * share * rest)):
            clock.now += 0.1
            told = Progress(1, 1, tick + 1, round(10 * share * rest), None, phase=phase)
            yield clock.now - began, pace.values(told)["eta_seconds"]


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.2, 0.5])  # of what follows, next to the training
@pytest.mark.parametrize("name", HISTORIES)
def test_in_the_second_half_the_time_left_is_right_within_a_factor_of_two(
    clock: Clock, name: str, share: float
) -> None:
    phases = HISTORIES[name]
    training = sum(seconds for _, seconds, _ in phases)
    rest = share * training
    total = training + rest
    told = [(total - passed, left) for passed, left in run(clock, phases, rest) if passed >= total / 2]
    assert len(told) > 100
    close = [left is not None and actual / 2 <= left + 1 and left <= 2 * actual + 1 for actual, left in told]
    assert sum(close) >= 0.95 * len(told)  # the first moments of a phase have no pace yet


def test_what_is_done_never_falls_and_ends_at_one(clock: Clock) -> None:
    pace = Pace(0.0, clock.now)
    shares = [pace.values(at(epoch, 10))["done"] for epoch in range(11)]
    shares += [pace.values(at(10, 10, step=rule, steps=5, phase="rules"))["done"] for rule in range(6)]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert pace.ended(at(10, 10)) | {"metrics": {}} == pace.values(at(10, 10)) | {
        "phase": "done",
        "text": "done",
        "done": 1.0,
        "eta_seconds": 0.0,
    }


def test_every_phase_is_told_in_words(clock: Clock) -> None:
    for phase, words in PHASES.items():
        assert Pace(0.0, clock.now).values(at(2, 5, step=3, steps=8, phase=phase))["text"].startswith(words)
    assert Pace(0.0, clock.now).values(at(2, 5))["text"] == "fitting, epoch 3 of 5"
    assert Pace(0.0, clock.now).values(at(2, 5, step=3, steps=8, phase="rules"))["text"] == "counting rules, 3 of 8"
    validating = Pace(0.0, clock.now).values(at(2, 5, step=3, steps=8, phase="validation"))
    assert validating["text"] == "validating, 3 of 8, after epoch 2 of 5"
    assert Pace(0.0, clock.now).values(at(0, 0, phase="loading"))["text"] == "reading the KB"
