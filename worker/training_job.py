"""Runs a training job from its claim to the stored model: resumable, cancellable, and fenced.

Fenced means that an attempt which has lost its lease can write nothing more.
"""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import structlog
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import Session

from ctp_core.artifact import decode, encode
from ctp_core.base.model import Model
from ctp_core.base.trainer import Trainer
from ctp_core.errors import ArtifactError, CtpError
from ctp_core.methods import stored_config
from ctp_core.registry import create_trainer
from ctp_core.rules import most_telling
from service.db.engine import Database
from service.db.tables import Job
from service.files.removals import remove_later
from service.files.storage import Storage, StorageAway, StorageError
from service.files.stores import make_storage
from service.kbs import repository as kbs
from service.models.staging import stage_rules
from service.settings import MAX_RULES, Settings
from service.training import capacity, lease, outcomes, repository
from service.training.outcomes import Trained, checkpoint_owner, model_owner
from service.training.repository import Claim, LeaseLost
from worker import memory
from worker.checkpoints import Checkpoints
from worker.device import choose_device, limit_threads
from worker.epoch_buffer import EpochBuffer
from worker.glimpses import Glimpses
from worker.heart import Heart, Released
from worker.names import worker_name
from worker.pace import TRAINING, TRAINING_WITHOUT_RULES, Pace

log = structlog.get_logger()
T = TypeVar("T")
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.2, 5.0


class TrainingJob:
    """Runs jobs in this process, one at a time; `stop` is set when the process must end."""

    def __init__(self, settings: Settings, stop: threading.Event | None = None) -> None:
        self.settings = settings
        self.database = Database(settings.database)
        self.storage: Storage = make_storage(settings)
        self.stop = stop or threading.Event()
        self.worker = worker_name()
        self._heart: Heart | None = None

    @property
    def clings(self) -> bool:
        """Tells whether the training still runs although its lease is lost."""
        return self._heart is not None and self._heart.unheard

    def run(self, job_id: str) -> None:
        """Trains the job if it can still be claimed; never raises for a failure of the job itself."""
        structlog.contextvars.bind_contextvars(job_id=job_id)
        try:
            self._run(job_id)
        except Released:
            log.warning(
                "job_left",
                reason="told to stop while the database was away: the job is taken back when its lease expires",
            )

    def _run(self, job_id: str) -> None:
        seconds = self.settings.lease_seconds
        claim = self._write(lambda session: lease.claim(session, job_id, self.worker, seconds))
        if claim is None:
            if self._read(lambda session: session.get(Job, job_id)) is None:
                log.error("job_unknown", hint="does another service use this Redis? give each its own CTP_REDIS_URL")
            log.info("job_not_to_be_had")
            return
        log.info("job_started", attempt=claim.attempt)
        job = self._read(lambda session: session.get_one(Job, job_id))
        self._heart = heart = Heart(self.database, claim, self.settings, self.stop)
        try:
            with heart:
                self._end(claim, lambda: self._train(job, claim, heart))
        except LeaseLost:
            log.warning("lease_lost", attempt=claim.attempt)
            self._clean_up(job, claim)

    def _end(self, claim: Claim, train: Callable[[], None]) -> None:
        """Trains and records how the job ended, whatever happens; raises LeaseLost if the claim no longer holds."""
        try:
            train()
        except LeaseLost:
            raise
        except Released:
            self._write(lambda session: lease.release(session, claim))
            log.info("job_released")
        except CtpError as error:
            self._fail(claim, error.code, str(error))
        except StorageError as error:
            self._fail(claim, error.code, str(error))
        except OverflowError as error:
            log.exception("training_overflowed")
            detail = (
                f"a number became too large to compute with ({error}): lower `learning_rate` or another large setting"
            )
            self._fail(claim, "training_overflowed", detail)
        except Exception as error:
            if memory.is_out_of_memory(error):
                self._fail_for_memory(claim)
                return
            log.exception("training_crashed")  # only logged: the trace names paths of this machine
            self._fail(claim, "training_crashed", f"{type(error).__name__}: {error}")

    def _train(self, job: Job, claim: Claim, heart: Heart) -> None:
        limit_threads(self.settings.threads)
        heart.report("loading")
        kb = self._read(lambda session: kbs.read_kb(session, kbs.pinned(session, job.kb_id)))
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

    def _restore(self, job: Job, claim: Claim, trainer: Trainer, heart: Heart) -> int:
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

    def _fail(self, claim: Claim, code: str, detail: str) -> None:
        error = {"code": code, "detail": detail}
        self._write(lambda session: outcomes.fail(session, claim, error))
        log.info("job_failed", code=code)

    def _fail_for_memory(self, claim: Claim) -> None:
        limit = memory.own_limit()
        memory.lift()  # what the training holds is freed only after this, and the report needs memory too

        def fail(session: Session) -> None:
            outcomes.fail(session, claim, capacity.out_of_memory(session.get_one(Job, claim.job_id), limit))

        self._write(fail)
        log.info("job_failed", code=capacity.OUT_OF_MEMORY)

    def _clean_up(self, job: Job, claim: Claim) -> None:
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

    # The database and the storage may be away for a while: a trained model waits for them.

    def _stored(self, once: Callable[[], T], claim: Claim, heart: Heart) -> T:
        """Calls `once` until the storage is back; raises after CTP_STORAGE_WAIT_SECONDS or if the job must stop."""
        deadline, wait, waits = time.monotonic() + self.settings.storage_wait_seconds, FIRST_WAIT_SECONDS, False
        while True:
            heart.check()
            try:
                found = once()
            except StorageAway as error:
                if time.monotonic() >= deadline:
                    raise
                log.warning("storage_away", error=str(error))
                if not waits:
                    self._show_waiting(claim, "storage")
                waits = True
                self.stop.wait(wait)
                wait = min(2 * wait, LONGEST_WAIT_SECONDS)
                continue
            if waits:
                self._show_waiting(claim, None)
            return found

    def _show_waiting(self, claim: Claim, part: str | None) -> None:
        self._write(lambda session: repository.write_held(session, claim, waiting_for=part))

    def _write(self, write: Callable[[Session], T]) -> T:
        def once() -> T:
            with self.database.write() as session:
                return write(session)

        return self._patiently(once)

    def _read(self, read: Callable[[Session], T]) -> T:
        def once() -> T:
            with self.database.read() as session:
                return read(session)

        return self._patiently(once)

    def _patiently(self, once: Callable[[], T]) -> T:
        """Repeats a transaction until the database is back; raises Released if the process must end meanwhile.

        Repeating is safe even if the first commit succeeded: every transaction here is fenced or only reads.
        """
        wait = FIRST_WAIT_SECONDS
        while True:
            try:
                return once()
            except DBAPIError as error:
                if not (isinstance(error, OperationalError) or error.connection_invalidated):
                    raise
                log.warning("database_away", error=str(error.orig))
                if self.stop.is_set():
                    raise Released from error
            self.stop.wait(wait)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)
