"""Runs a training job up to the stored model; it can be resumed."""

from functools import partial
from typing import Any

import structlog
from sqlalchemy.orm import Session

from ctp_core.artifact import decode, encode
from ctp_core.base.model import Model
from ctp_core.base.trainer import Trainer
from ctp_core.errors import ArtifactError
from ctp_core.kb.holdout import Holdout, hold_out
from ctp_core.methods import stored_config
from ctp_core.registry import create_trainer
from ctp_core.rules import most_telling
from service.db.tables import Job, ModelVersion
from service.files.removals import remove_later
from service.kbs import repository as kbs
from service.kbs.whole import KbRows
from service.models.staging import stage_rules
from service.settings import MAX_RULES
from service.training import outcomes, repository
from service.training.outcomes import Trained, checkpoint_owner, model_owner
from service.training.repository import Claim
from worker.checkpoints import Checkpoints
from worker.device import choose_device, limit_threads
from worker.epoch_buffer import EpochBuffer
from worker.glimpses import Glimpses
from worker.heart import Heart
from worker.job import JobRunner
from worker.pace import TRAINING, TRAINING_WITHOUT_RULES, Pace

log = structlog.get_logger()


class TrainingJob(JobRunner):
    """Trains, and stores the model with its rules; goes on from the last checkpoint of an earlier attempt."""

    def crashed(self, claim: Claim, error: Exception) -> None:
        if isinstance(error, OverflowError):
            log.exception("training_overflowed")
            detail = (
                f"a number became too large to compute with ({error}): lower `learning_rate` or another large setting"
            )
            self._fail(claim, "training_overflowed", detail)
            return
        log.exception("training_crashed")  # only logged: the trace names paths of this machine
        self._fail(claim, "training_crashed", f"{type(error).__name__}: {error}")

    def work(self, job: Job, claim: Claim, heart: Heart) -> None:
        limit_threads(self.settings.threads)
        heart.report("loading")
        rows = self._read(lambda session: KbRows.of(session, kbs.pinned(session, job.kb_id)))
        kb = self._stored(partial(rows.read, self.files), claim, heart)
        version = self._read(lambda session: session.get_one(ModelVersion, job.model_id))
        if version.holdout is not None:
            kb = hold_out(kb, Holdout(**version.holdout))
        config = stored_config(kb.kind, job.config)
        trainer = create_trainer(config, kb, choose_device(self.settings.device))
        resumed = self._restore(job, claim, trainer, heart) > 0
        heart.pace = Pace(None if resumed else 0.0, training=TRAINING if config.explainable else TRAINING_WITHOUT_RULES)
        heart.trials, epochs, glimpses, progress = trainer.trials, EpochBuffer(claim), Glimpses(), None
        checkpoints = Checkpoints(claim, self.storage, self._write, self.settings.checkpoint_seconds)
        while not trainer.finished:
            heart.check()
            progress = glimpses.added(trainer.train_epoch(heart.check), trainer)
            heart.check(progress)
            if progress.phase == "search":
                heart.trials = trainer.trials
            epochs.note(heart.values(progress))
            if checkpoints.due(trainer):
                checkpoints.save(trainer, progress.metrics, epochs)
            elif epochs.due:
                self._write(epochs.write)
                epochs.written()
        ended = None if progress is None else heart.pace.ended(progress)
        heart.report("calibration" if kb.kind == "facts" else "saving")
        model = trainer.model()
        heart.report("saving")
        self._register(job, claim, model, heart, ended)

    def _restore(self, job: Job, claim: Claim, trainer: Trainer[Model], heart: Heart) -> int:
        """Restores the newest undamaged checkpoint; returns its epoch, 0 for a fresh start."""
        for checkpoint in self._read(lambda session: repository.checkpoints(session, job.id)):
            try:
                trainer.restore(decode(self._stored(partial(self.storage.get, checkpoint.artifact), claim, heart)))
            except ArtifactError as error:
                log.warning("checkpoint_damaged", epoch=checkpoint.epoch, error=str(error))
                continue
            log.info("job_resumed", epoch=checkpoint.epoch)
            return checkpoint.epoch
        return 0

    def _register(self, job: Job, claim: Claim, model: Model, heart: Heart, ended: dict[str, Any] | None) -> None:
        """Stores the model's files and stages its rules, then writes the model and the end of the job together."""
        rules = model.rules(partial(heart.report, "rules"))  # first: the files keep what was counted
        files = encode(model.to_artifact())
        key = self._stored(lambda: self.storage.put(self._model_owner(job, claim), files), claim, heart)
        size = sum(map(len, files.values()))
        kept = most_telling(rules, MAX_RULES)
        if len(kept) < len(rules):
            log.warning("rules_cut", found=len(rules), kept=len(kept))
        staged = stage_rules(self._write, job, claim, outcomes.rule_values(kept))
        trained = Trained(key, size, staged, model.config, heart.trials, ended, model.own_metrics)
        self._write(lambda session: outcomes.succeed(session, claim, trained))
        log.info("job_succeeded", rules=len(rules))

    def clean_up(self, job: Job, claim: Claim) -> None:
        """Schedules the removal of this attempt's unneeded files; the next attempt may need its checkpoints."""

        def remove(session: Session) -> None:
            newest = session.get_one(Job, job.id)
            if newest.status == "succeeded" and newest.attempt == claim.attempt:
                return  # our own commit succeeded, although we got no reply
            remove_later(session, self._model_owner(job, claim))
            if newest.status in ("failed", "cancelled"):
                remove_later(session, checkpoint_owner(job.id))

        self._write(remove)

    @staticmethod
    def _model_owner(job: Job, claim: Claim) -> str:
        return f"{model_owner(job.model_id)}/{job.id}/{claim.attempt}"
