"""How far a job is and how long it will still take, from the pace of this run."""

import time
from dataclasses import asdict, dataclass, field
from typing import Any

from ctp_core.base.progress import PHASES, Progress, share_done

# Shares of a job that its training takes, before its scores are calibrated, it is saved, and its rules, if it has any,
# are counted: measured on KBs of 20,000 facts, and a forecast until the counting has a pace of its own.
TRAINING, TRAINING_WITHOUT_RULES = 0.75, 0.95
AFTER = {"calibration": 0.0, "saving": 0.36, "rules": 0.45}  # the share of the rest that lies before each phase
RECENT = 0.5  # of the time so far, by whose pace the rest is judged
SETTLED = 0.15  # of the time so far, after which a phase has a pace of its own
ENOUGH_SHARE, ENOUGH_SECONDS = 0.01, 10.0  # a pace rests on at least so much of the work, or so much time
COUNTED = 0.05  # of the rules, after which their counting has a pace of its own
MARKS = 256  # moments of a run that are remembered


@dataclass
class Pace:
    """Estimates the time left of a run.

    `begun_at` is the share of the training that earlier runs have done; None means that the first report tells.
    """

    begun_at: float | None = 0.0
    started: float = field(default_factory=time.monotonic)
    training: float = TRAINING
    _marks: list[tuple[float, float]] = field(default_factory=list)  # (moment, share of the training that was done)
    _phase: str = ""
    _phase_began: float = 0.0
    _ended: float | None = None  # when the training had ended
    _counting: tuple[float, float] | None = None  # the first mark of the counting of rules

    def values(self, progress: Progress) -> dict[str, Any]:
        """Returns the progress as shown to users: in words, with the share that is done and the time left."""
        now = time.monotonic()
        eta: float | None
        if progress.phase in AFTER:
            behind, share = AFTER[progress.phase], counted_share(progress)
            self._enter(progress.phase, now)
            eta = self._left_after(behind, share, now)
            done = self.training + (1 - self.training) * (behind + (1 - behind) * share)
        else:
            share = share_done(progress)
            self._mark(now, share, progress.phase)
            eta, done = self._left_of_training(share, now), self.training * share
        shown = {"done": round(done, 4), "text": in_words(progress), "elapsed_seconds": round(now - self.started, 1)}
        return {**asdict(progress), **shown, "eta_seconds": None if eta is None else round(eta, 1)}

    def ended(self, progress: Progress) -> dict[str, Any]:
        """Returns the last progress of a training whose model is ready."""
        return self.values(progress) | {"phase": "done", "text": "done", "done": 1.0, "eta_seconds": 0.0}

    def _left_of_training(self, share: float, now: float) -> float | None:
        """The rest of the training at the recent pace, and the forecast time of what follows."""
        if self.begun_at is None:
            self.begun_at, self.started = share, now
        gained, seconds = share - self.begun_at, now - self.started
        if gained <= 0 or (gained < ENOUGH_SHARE and seconds < ENOUGH_SECONDS):
            return None
        then, before = self._recent(now)
        if share <= before:  # no news for long: the pace of the whole run is all there is
            then, before = self.started, self.begun_at
        pace = (now - then) / (share - before)
        return (1 - share) * pace + (1 - self.training) / self.training * seconds / gained

    def _recent(self, now: float) -> tuple[float, float]:
        """The mark from which on the pace is measured: the begin of the phase, or of the recent time where it is later.

        A phase that has just begun is judged by what came before it.
        """
        assert self.begun_at is not None
        if now - self._phase_began >= SETTLED * (now - self.started):
            since = max(self._phase_began, now - RECENT * (now - self.started))
        else:
            since = now - RECENT * (now - self.started)
        return next((mark for mark in reversed(self._marks) if mark[0] <= since), (self.started, self.begun_at))

    def _left_after(self, behind: float, share: float, now: float) -> float:
        """By the pace of the counting alone, once it has one; until then as forecast for the phases to come."""
        self._ended = now if self._ended is None else self._ended
        if share > 0 and self._counting is None:
            self._counting = (now, share)
        if self._counting is not None and share - self._counting[1] >= COUNTED:
            then, before = self._counting
            return (1 - share) * (now - then) / (share - before)
        forecast = (1 - self.training) / self.training * (self._ended - self.started)
        ahead = 1 - min([begin for begin in AFTER.values() if begin > behind], default=1.0)
        return max(ahead * forecast, (1 - behind) * forecast - (now - self._phase_began))

    def _enter(self, phase: str, now: float) -> None:
        if phase != self._phase:
            self._phase, self._phase_began = phase, now

    def _mark(self, now: float, share: float, phase: str) -> None:
        self._enter(phase, now)
        if not self._marks or share > self._marks[-1][1]:
            self._marks.append((now, share))
        if len(self._marks) > MARKS:
            self._marks = self._marks[::2]


def counted_share(progress: Progress) -> float:
    return progress.step / progress.steps if progress.phase == "rules" and progress.steps else 0.0


def in_words(progress: Progress) -> str:
    """What is being done and how far it is, e.g. `counting rules, 3 of 12`."""
    words = PHASES.get(progress.phase, progress.phase)
    step, epoch = progress.step, min(progress.epoch + 1, progress.epochs)
    if progress.phase in ("mining", "fitting"):
        return f"{words}, epoch {epoch:,} of {progress.epochs:,}"
    if progress.phase == "search":  # the trial that is being made, not those that are done
        step = min(step + 1, progress.steps)
    if progress.steps > 1:
        words += f", {step:,} of {progress.steps:,}"
    if progress.phase == "validation" and progress.epoch < progress.epochs:
        words += f", after epoch {progress.epoch:,} of {progress.epochs:,}"
    return words
