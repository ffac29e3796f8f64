"""The SQL of evaluations, beside that of all jobs."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.db.tables import Job, Kb
from service.training.repository import EVALUATE


def find(session: Session, tenant: str, evaluation_id: str) -> Job | None:
    mine = (Job.tenant == tenant, Job.id == evaluation_id, Job.type == EVALUATE)
    return session.scalars(select(Job).where(*mine)).one_or_none()


def kb_names(session: Session, jobs: Sequence[Job]) -> dict[str, str]:
    """Returns KB id -> name, for the KBs that still exist."""
    wanted = {job.kb_id for job in jobs}
    statement = select(Kb.id, Kb.name).where(Kb.id.in_(wanted), Kb.status == "ready")
    return {row.id: row.name for row in session.execute(statement)}
