"""Keeps the best and the last checkpoint of a job and, while it runs, the last but one; drops all others."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from service.db.tables import Checkpoint
from service.files.removals import remove_later
from service.training import repository

# Validation metrics that rank models, larger is better; the first one that all of them have decides.
DECIDING_METRICS = ("mrr", "accuracy", "auc_pr")


def best_checkpoint(rows: Sequence[Checkpoint]) -> Checkpoint:
    """Returns the best checkpoint on validation; the newest in a tie, or without validation data."""

    def quality(row: Checkpoint) -> tuple[float, int]:
        name = next((name for name in DECIDING_METRICS if name in row.metrics), None)
        return (row.metrics[name] if name else float("-inf"), row.epoch)

    return max(rows, key=quality)


def keep_checkpoints(session: Session, job_id: str, running: bool = False) -> None:
    """Drops all other checkpoints; a running job keeps one more, in case the last is damaged."""
    rows = repository.checkpoints(session, job_id)
    kept = [*rows[: 2 if running else 1], *([best_checkpoint(rows)] if rows else [])]
    for row in rows:
        if row not in kept:
            repository.forget_checkpoint(session, row)
            remove_later(session, row.artifact)
