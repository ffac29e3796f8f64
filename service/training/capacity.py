"""What a training is expected to cost, the memory that train workers have for it, and jobs that needed more."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from statistics import median
from typing import Any

from sqlalchemy import delete, not_, select
from sqlalchemy.orm import Session

from ctp_core.base.config import BaseConfig
from ctp_core.base.cost import Forecast
from ctp_core.kb.profile import Profile
from ctp_core.methods import forecast as core_forecast
from ctp_core.methods import saving
from service.db.clock import now, recent
from service.db.tables import Job, TrainWorker
from service.errors import Invalid
from service.training.repository import EVALUATE, PREDICT

REPORT_SECONDS = 30.0  # between two reports of a worker
SILENT_SECONDS = 4 * REPORT_SECONDS  # a worker that reports nothing for so long does not count
OUT_OF_MEMORY = "out_of_memory"
SETTING, BATCH_SETTING = "CTP_TRAIN_MEMORY_BYTES", "CTP_BATCH_MEMORY_BYTES"


def report(session: Session, name: str, memory_bytes: int | None, speed: float) -> None:
    """Writes what a train worker has for a training, and forgets workers that have been silent for long."""
    session.execute(delete(TrainWorker).where(not_(recent(TrainWorker.seen_at, SILENT_SECONDS))))
    leave(session, name)
    session.add(TrainWorker(name=name, memory_bytes=memory_bytes, speed=speed, seen_at=now()))


def leave(session: Session, name: str) -> None:
    session.execute(delete(TrainWorker).where(TrainWorker.name == name))


def forecast(session: Session, config: BaseConfig, profile: Profile) -> Forecast:
    """What a training will cost; the seconds are those of the train workers that there are."""
    speeds = [worker.speed for worker in _workers(session)]
    return scaled(core_forecast(config, profile), median(speeds) if speeds else None)


def together(expected: Sequence[Forecast]) -> Forecast:
    """What trainings with several seeds cost, one after the other."""
    seconds, peak = sum(one.cpu_seconds for one in expected), max(one.peak_bytes for one in expected)
    several = f"{len(expected)} seeds, each: " if len(expected) > 1 else ""
    return Forecast(seconds, peak, f"{several}{expected[0].basis}")


def scaled(expected: Forecast, speed: float | None) -> Forecast:
    """The forecast with the seconds of a machine of this speed; what a training does never depends on it."""
    if speed is None:
        return expected
    basis = f"{expected.basis}; scaled by the measured speed of the train workers, {speed:.2g} of the reference core"
    return replace(expected, cpu_seconds=expected.cpu_seconds / speed, basis=basis)


def shown(expected: Forecast) -> dict[str, Any]:
    """The forecast as records show it."""
    return asdict(replace(expected, cpu_seconds=round(expected.cpu_seconds, 1), peak_bytes=int(expected.peak_bytes)))


def check_fits(session: Session, config: BaseConfig, expected: Forecast) -> None:
    """Raises Invalid if no train worker has the memory; passes if none is known, or one does not know its memory."""
    limits = [worker.memory_bytes for worker in _workers(session)]
    known = [limit for limit in limits if limit is not None]
    if not known or len(known) < len(limits) or expected.peak_bytes <= max(known):
        return
    detail = (
        f"this training is expected to need {gigabytes(expected.peak_bytes)} of memory, and the largest train worker "
        f"has {gigabytes(max(known))} for it: {saving(config.method)}, or raise {SETTING}"
    )
    raise Invalid("too_little_memory", detail, forecast=shown(expected), limit_bytes=max(known), setting=SETTING)


def out_of_memory(job: Job, limit: int | None, machine: bool = False) -> dict[str, Any]:
    """The error of a job that took more memory than it may (`limit`), or all that the machine had (`machine`)."""
    may = "what the worker has" if limit is None else f"the {gigabytes(limit)} that it may use"
    work, remedy, setting = _told_of(job)
    reason = f"the machine ran out of memory during this {work}" if machine else f"this {work} needed more than {may}"
    detail = f"{reason}{remedy} raise {setting} on a machine with more memory"
    return {"code": OUT_OF_MEMORY, "detail": detail, "forecast": job.forecast, "limit_bytes": limit, "setting": setting}


def _told_of(job: Job) -> tuple[str, str, str]:
    """What a job is called, what may help it, and the setting of its memory."""
    if job.type == EVALUATE:
        return "evaluation", ":", BATCH_SETTING
    if job.type == PREDICT:
        return "prediction", ":", BATCH_SETTING
    expected = (job.forecast or {}).get("peak_bytes")
    forecast = f"forecast: {gigabytes(expected)}" if expected else "no forecast was made"
    return "training", f" ({forecast}): {saving(job.config['method'])}, or", SETTING


def gigabytes(number: float) -> str:
    return f"{number / 1e9:.2g} GB" if number < 1e9 else f"{number / 1e9:.1f} GB"


def _workers(session: Session) -> list[TrainWorker]:
    statement = select(TrainWorker).where(recent(TrainWorker.seen_at, SILENT_SECONDS))
    return list(session.scalars(statement))
