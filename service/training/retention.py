"""Which checkpoints are kept: the best and the last, and while the job runs the one before the last."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from service.db.tables import Checkpoint
from service.files.removals import remove_later
from service.training import repository

# What tells two states of a model apart on validation, the first that both have; larger is better.
DECIDING_METRICS = ("mrr", "accuracy", "auc_pr")


def best_checkpoint(rows: Sequence[Checkpoint]) -> Checkpoint:
    """The best on validation; the newest of equals, and where there is no validation data."""

    def quality(row: Checkpoint) -> tuple[float, int]:
        name = next((name for name in DECIDING_METRICS if name in row.metrics), None)
        return (row.metrics[name] if name else float("-inf"), row.epoch)

    return max(rows, key=quality)


def keep_checkpoints(session: Session, job_id: str, running: bool = False) -> None:
    """Forgets all others. A running job keeps one to fall back to, should the last be damaged."""
    rows = repository.checkpoints(session, job_id)
    kept = [*rows[: 2 if running else 1], *([best_checkpoint(rows)] if rows else [])]
    for row in rows:
        if row not in kept:
            repository.forget_checkpoint(session, row)
            remove_later(session, row.artifact)
