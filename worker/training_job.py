"""One training job, from the claim to the model: resumable, cancellable, and fenced against its own ghosts."""

import os
import socket
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import structlog
from sqlalchemy.exc import SQLAlchemyError

from ctp_core.artifact import Artifact, decode, encode
from ctp_core.config import parse_config
from ctp_core.errors import ArtifactError, CtpError, TrainingStopped
from ctp_core.models.base import Model
from ctp_core.models.registry import create_trainer
from ctp_core.training.trainer import Progress, Trainer
from service.db.clock import now
from service.db.engine import Database
from service.db.tables import Checkpoint, Job, Kb
from service.kbs import repository as kbs
from service.settings import Settings
from service.storage import Storage, make_storage
from service.training import repository
from service.training.repository import Claim, LeaseLost
from worker.device import choose_device, limit_threads

log = structlog.get_logger()
MAX_TRACE = 2000
DIARY_SECONDS = 0.5


class Heart:
    """Renews the lease in a thread of its own and looks whether the job is wanted any more."""

    def __init__(self, database: Database, claim: Claim, settings: Settings) -> None:
        self.database, self.claim, self.settings = database, claim, settings
        self.lost = self.cancelled = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heart", daemon=True)

    def __enter__(self) -> "Heart":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def check(self, _: object = None) -> None:
        """Called at every step; raises where the training must end."""
        if self.lost:
            raise LeaseLost(self.claim.job_id)
        if self.cancelled:
            raise TrainingStopped("the job was cancelled")

    def _beat(self) -> None:
        renewed = time.monotonic()
        while not self._stop.wait(min(self.settings.cancel_seconds, self.settings.heartbeat_seconds)):
            try:
                with self.database.read() as session:
                    self.cancelled = repository.cancel_requested(session, self.claim)
                if time.monotonic() - renewed >= self.settings.heartbeat_seconds:
                    with self.database.write() as session:
                        repository.renew(session, self.claim, self.settings.lease_seconds)
                    renewed = time.monotonic()
            except LeaseLost:
                self.lost = True
                return
            except SQLAlchemyError as error:
                # The database may come back before the lease ends; if not, the lease is lost and we are told then.
                log.warning("heartbeat_failed", error=str(error))


class Diary:
    """Writes epochs to the database, several at once where they are short: a commit costs more than a small epoch."""

    def __init__(self, database: Database, claim: Claim, epoch: int) -> None:
        self.database, self.claim = database, claim
        self.started, self.first_epoch = time.monotonic(), epoch
        self._unwritten: list[Progress] = []
        self._written_at = float("-inf")

    def note(self, progress: Progress, last: bool) -> None:
        """Raises LeaseLost where the job is not ours any more."""
        self._unwritten.append(progress)
        if not last and time.monotonic() - self._written_at < DIARY_SECONDS:
            return
        pace = (time.monotonic() - self.started) / max(1, progress.epoch - self.first_epoch)
        eta = round(pace * (progress.epochs - progress.epoch), 1)
        with self.database.write() as session:
            for epoch in self._unwritten:
                repository.record_epoch(session, self.claim, asdict(epoch) | {"eta_seconds": eta})
        self._unwritten, self._written_at = [], time.monotonic()


class TrainingJob:
    """Runs jobs in this process, one at a time."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database(settings.database)
        self.storage: Storage = make_storage(settings)
        self.worker = f"{socket.gethostname()}:{os.getpid()}"

    def run(self, job_id: str) -> None:
        """Trains the job if it is still to be had. Never raises for what went wrong with the job itself."""
        structlog.contextvars.bind_contextvars(job_id=job_id)
        with self.database.write() as session:
            claim = repository.claim(session, job_id, self.worker, self.settings.lease_seconds)
        if claim is None:
            log.info("job_not_to_be_had")
            return
        log.info("job_started", attempt=claim.attempt)
        with self.database.read() as session:
            job = session.get_one(Job, job_id)
        with Heart(self.database, claim, self.settings) as heart:
            self._end(job, claim, lambda: self._train(job, claim, heart))

    def _end(self, job: Job, claim: Claim, train: Callable[[], None]) -> None:
        """Whatever happens, the job ends in a state that says so, unless it is not ours any more."""
        try:
            train()
        except LeaseLost:
            log.warning("lease_lost")
        except TrainingStopped:
            self._give_up(job, claim, "cancelled", None)
        except CtpError as error:
            self._give_up(job, claim, "failed", {"code": error.code, "detail": str(error)})
        except Exception as error:
            log.exception("training_crashed")
            detail = f"{type(error).__name__}: {error}"
            trace = traceback.format_exc()[-MAX_TRACE:]
            self._give_up(job, claim, "failed", {"code": "training_crashed", "detail": detail, "trace": trace})

    def _train(self, job: Job, claim: Claim, heart: Heart) -> None:
        limit_threads(self.settings.threads)
        with self.database.read() as session:
            kb = kbs.load(session, session.query(Kb).filter(Kb.id == job.kb_id).one())
        trainer = create_trainer(parse_config(job.config), kb, choose_device(self.settings.device))
        diary = Diary(self.database, claim, self._restore(job, trainer))
        saved_at = time.monotonic()
        metrics: dict[str, float] = {}
        while not trainer.finished:
            heart.check()
            progress = trainer.train_epoch(heart.check)
            metrics = progress.metrics or metrics
            diary.note(progress, last=trainer.finished)
            if time.monotonic() - saved_at >= self.settings.checkpoint_seconds:
                self._save_checkpoint(job, claim, trainer, metrics)
                saved_at = time.monotonic()
        heart.check()
        self._register(job, claim, trainer.model(), metrics)

    def _restore(self, job: Job, trainer: Trainer) -> int:
        """Goes on from the newest checkpoint that is whole; the epoch it stands at, 0 for a fresh start."""
        with self.database.read() as session:
            checkpoints = repository.checkpoints(session, job.id)
        for checkpoint in checkpoints:
            try:
                trainer.restore(decode(self.storage.get(checkpoint.artifact)))
            except ArtifactError as error:
                log.warning("checkpoint_damaged", epoch=checkpoint.epoch, error=str(error))
                continue
            log.info("job_resumed", epoch=checkpoint.epoch)
            return checkpoint.epoch
        return 0

    def _save_checkpoint(self, job: Job, claim: Claim, trainer: Trainer, metrics: dict[str, float]) -> None:
        files = encode(trainer.checkpoint())
        key = self.storage.put(f"jobs/{job.id}", files)
        row = Checkpoint(
            job_id=job.id,
            epoch=trainer.epoch,
            attempt=claim.attempt,
            artifact=key,
            num_bytes=sum(map(len, files.values())),
            metrics=metrics,
        )
        with self.database.write() as session:
            repository.record_checkpoint(session, claim, row)

    def _register(self, job: Job, claim: Claim, model: Model, metrics: dict[str, float]) -> None:
        """The model's files first; then model, rules and job end in one transaction."""
        artifact: Artifact = model.to_artifact()
        files = encode(artifact)
        key = self.storage.put(f"models/{job.model_id}", files)
        values: dict[str, Any] = {
            "artifact": key,
            "artifact_bytes": sum(map(len, files.values())),
            "metrics": metrics,
            "ready_at": now(),
        }
        rules = model.rules()
        with self.database.write() as session:
            repository.finish(session, claim, "succeeded")
            repository.end_model(session, job.model_id, "ready", **values)
            repository.store_rules(session, job.model_id, rules)
            repository.forget_checkpoints(session, job.id)
        self.storage.delete(f"jobs/{job.id}")
        log.info("job_succeeded", rules=len(rules))

    def _give_up(self, job: Job, claim: Claim, status: str, error: dict[str, Any] | None) -> None:
        try:
            with self.database.write() as session:
                repository.finish(session, claim, status, error)
                repository.end_model(session, job.model_id, status)
                repository.forget_checkpoints(session, job.id)
        except LeaseLost:
            log.warning("lease_lost")
            return
        self.storage.delete(f"jobs/{job.id}")
        self.storage.delete(f"models/{job.model_id}")
        log.info("job_ended", status=status)
