"""Runs an evaluation job: loads a model, asks for the facts or graphs of a split, and records the figures.

An attempt that is lost is begun again: it gives the same figures.
"""

import time
from dataclasses import replace

import structlog

from ctp_core.base.progress import Progress
from ctp_core.errors import CtpError
from ctp_core.evaluate import evaluate
from service.db.tables import Job
from service.training import outcomes
from service.training.repository import Claim
from worker.asking import AskingRunner
from worker.device import limit_threads
from worker.heart import Heart
from worker.pace import Pace

log = structlog.get_logger()


class EvaluationTooLong(CtpError):
    """The evaluation takes longer than it may."""

    code = "evaluation_too_long"


class Evaluating(AskingRunner):
    """Evaluates."""

    def evaluate(self, job: Job, claim: Claim, heart: Heart) -> None:
        limit_threads(self.settings.threads)
        heart.report("loading")
        model, kb = self._loaded(job, claim, heart)
        heart.pace = Pace(training=1.0)
        deadline = time.monotonic() + self.settings.evaluation_seconds
        progress = Progress(0, 0, 0, 1, None, phase="evaluation", done=0.0)

        def on_part(done: int, total: int) -> None:
            nonlocal progress
            progress = Progress(0, 0, done, total, None, phase="evaluation", done=done / total)
            heart.check(progress)
            if time.monotonic() > deadline:
                raise self._too_long(done, total)

        figures = evaluate(model, kb, job.config["split"], job.config["limit"], on_part).values()
        # The metrics stand in the progress, too: lists read them there, without all the other figures.
        ended = heart.pace.ended(replace(progress, metrics=figures["metrics"]))
        self._write(lambda session: outcomes.answered(session, claim, figures, ended))
        log.info("job_succeeded")

    def _too_long(self, done: int, total: int) -> EvaluationTooLong:
        seconds = self.settings.evaluation_seconds
        return EvaluationTooLong(
            f"after {seconds:g} s (CTP_EVALUATION_SECONDS) {done:,} of {total:,} questions were answered: ask for a "
            "sample with `limit`, or raise the setting"
        )
