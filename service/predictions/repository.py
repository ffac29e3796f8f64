"""The SQL of predictions, beside that of all jobs."""

from collections.abc import Sequence

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from service.db.clock import now
from service.db.tables import Job, PredictionFile
from service.files.removals import remove_later
from service.training import outcomes
from service.training.repository import PREDICT, Claim, write_held


def files(session: Session, job_id: str) -> Sequence[PredictionFile]:
    """Returns the files of a prediction in the order of their rows."""
    statement = select(PredictionFile).where(PredictionFile.job_id == job_id).order_by(PredictionFile.number)
    return session.scalars(statement).all()


def bytes_of(session: Session, jobs: Sequence[Job]) -> dict[str, int]:
    """Returns job id -> bytes that can be downloaded; none of a job without files."""
    wanted = PredictionFile.job_id.in_({job.id for job in jobs})
    statement = select(PredictionFile.job_id, func.sum(PredictionFile.num_bytes)).where(wanted)
    return {row[0]: int(row[1]) for row in session.execute(statement.group_by(PredictionFile.job_id))}


def add_part(session: Session, claim: Claim, part: PredictionFile) -> None:
    """Adds a part whose files are stored; raises LeaseLost if the claim no longer holds."""
    write_held(session, claim, worker=Job.worker)
    session.merge(part)  # the same part may be there: who did not hear of a commit tries again
    session.flush()


def replace_parts(session: Session, claim: Claim, whole: Sequence[PredictionFile]) -> None:
    """Puts the files of the whole in the place of its parts, whose files are removed; raises as `add_part`."""
    write_held(session, claim, worker=Job.worker)
    kept = {file.artifact for file in whole}
    for part in files(session, claim.job_id):
        if part.artifact not in kept:
            remove_later(session, part.artifact)
    forget(session, claim.job_id)
    session.add_all(whole)
    session.flush()


def forget(session: Session, job_id: str) -> None:
    session.execute(delete(PredictionFile).where(PredictionFile.job_id == job_id))


def remove_files(session: Session, job_id: str, seconds: float = 0.0) -> None:
    """Forgets the files of a prediction; the dispatcher removes them after `seconds`."""
    forget(session, job_id)
    remove_later(session, outcomes.prediction_owner(job_id), seconds)


def expired(session: Session, seconds: float) -> Sequence[str]:
    """Returns the predictions that ended more than `seconds` ago and still have files."""
    with_files = Job.id.in_(select(PredictionFile.job_id))
    ended = (Job.type == PREDICT, Job.status == "succeeded", Job.finished_at < now() - seconds)
    return session.scalars(select(Job.id).where(with_files, *ended)).all()
