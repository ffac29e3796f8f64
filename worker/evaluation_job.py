"""Runs an evaluation job: loads a model, asks for the facts or graphs of a split, and records the figures.

An attempt that is lost is begun again: it gives the same figures.
"""

import time
from dataclasses import replace
from functools import partial

import structlog
from sqlalchemy.orm import Session

from ctp_core.artifact import decode
from ctp_core.base.facts_model import FactsModel
from ctp_core.base.model import Model
from ctp_core.base.progress import Progress
from ctp_core.errors import ArtifactError, CtpError
from ctp_core.evaluate import evaluate
from ctp_core.kb.holdout import Holdout, hold_out
from ctp_core.kb.knowledge_base import KnowledgeBase
from ctp_core.registry import load_model
from service.db.tables import Job, ModelVersion
from service.kbs import repository as kbs
from service.kbs.whole import KbRows
from service.training import lease, outcomes
from service.training.repository import EVALUATE, Claim
from worker.device import choose_device, limit_threads
from worker.heart import Heart
from worker.job import JobRunner
from worker.pace import Pace

log = structlog.get_logger()


class EvaluationTooLong(CtpError):
    """The evaluation takes longer than it may."""

    code = "evaluation_too_long"


class EvaluationJob(JobRunner):
    """Evaluates. Whichever job a message names, the tenant that has waited longest is next."""

    rows_are_kept = False

    def claim(self, session: Session, job_id: str) -> Claim | None:
        del job_id
        return lease.claim_next(session, EVALUATE, self.worker, self.settings.lease_seconds)

    def crashed(self, claim: Claim, error: Exception) -> None:
        log.exception("evaluation_crashed")  # only logged: the trace names paths of this machine
        self._fail(claim, "evaluation_crashed", f"{type(error).__name__}: {error}")

    def clean_up(self, job: Job, claim: Claim) -> None:
        """Has written no files."""

    def work(self, job: Job, claim: Claim, heart: Heart) -> None:
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
        self._write(lambda session: outcomes.evaluated(session, claim, figures, ended))
        log.info("job_succeeded")

    def _too_long(self, done: int, total: int) -> EvaluationTooLong:
        seconds = self.settings.evaluation_seconds
        return EvaluationTooLong(
            f"after {seconds:g} s (CTP_EVALUATION_SECONDS) {done:,} of {total:,} questions were answered: ask for a "
            "sample with `limit`, or raise the setting"
        )

    def _loaded(self, job: Job, claim: Claim, heart: Heart) -> tuple[Model, KnowledgeBase]:
        """The model on the KB of the job, and that KB; raises ArtifactError where the model was deleted."""
        version = self._read(lambda session: session.get_one(ModelVersion, job.model_id))
        if version.artifact is None:
            raise ArtifactError(f"model {version.name}@{version.version} was deleted before it was evaluated")
        files = self._stored(partial(self.storage.get, version.artifact), claim, heart)
        model = load_model(decode(files), choose_device(self.settings.device))
        rows = self._read(lambda session: KbRows.of(session, kbs.pinned(session, job.kb_id)))
        is_own = rows.kb.sha256 == version.kb_sha256
        if isinstance(model, FactsModel) and is_own:
            return model, model.kb  # its files hold all splits
        kb = self._stored(partial(rows.read, self.files), claim, heart)
        if is_own and version.holdout is not None:
            kb = hold_out(kb, Holdout(**version.holdout))
        return (model.on(kb) if isinstance(model, FactsModel) else model), kb
