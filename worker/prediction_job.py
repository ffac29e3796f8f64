"""Runs a prediction job: asks a model every question about a predicate, and stores the rows part by part.

A part is files and a row in the database that says which question is next. An attempt that is lost leaves its parts,
and the next one goes on after them: no row is lost, and none comes twice.
"""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import structlog
from sqlalchemy.orm import Session

from ctp_core.base.facts_model import FactsModel
from ctp_core.base.progress import Progress
from ctp_core.errors import BadQuestion
from ctp_core.predict import Prediction, Predictor, Wanted
from service.db.tables import Job, PredictionFile
from service.files.storage import ROWS, rows_files
from service.predictions import repository
from service.training import outcomes
from service.training.repository import Claim
from worker.asking import AskingRunner
from worker.device import limit_threads
from worker.heart import Heart
from worker.pace import Pace
from worker.prediction_files import part, write_parquet

log = structlog.get_logger()
PART_ROWS, PART_SECONDS = 10_000, 5.0  # a part is stored after either
FILE_BYTES = 16 * 1024 * 1024  # of a Parquet file that are stored together
MAX_ROWS, MAX_SECONDS = "CTP_MAX_PREDICTION_ROWS", "CTP_PREDICTION_SECONDS"


class Predicting(AskingRunner):
    """Predicts."""

    def predict(self, job: Job, claim: Claim, heart: Heart) -> None:
        limit_threads(self.settings.threads)
        heart.report("loading")
        model, _ = self._loaded(job, claim, heart)
        if not isinstance(model, FactsModel):
            raise BadQuestion("a model of graphs has no links to predict: ask it with POST /query")
        predictor = Predictor(model, _wanted(job))
        parts = _Parts(self, job, claim, heart, predictor)
        heart.pace = Pace(begun_at=parts.progress.done, training=1.0)
        stopped_by = parts.ask()
        whole = self._parquet(job, claim, heart, parts.files) if job.config["format"] == "parquet" else None
        figures = {
            "num_questions": parts.next_step * predictor.questions_per_step,
            "num_rows": parts.num_rows,
            "truncated": stopped_by is not None,
            "stopped_by": stopped_by,
        }
        ended = heart.pace.ended(parts.progress)

        def end(session: Session) -> None:
            if whole is not None:
                repository.replace_parts(session, claim, whole)
            outcomes.answered(session, claim, figures, ended)

        self._write(end)
        log.info("job_succeeded", rows=parts.num_rows)

    def _parquet(self, job: Job, claim: Claim, heart: Heart, parts: list[PredictionFile]) -> list[PredictionFile]:
        """Makes one Parquet file of all parts; an attempt that is lost meanwhile leaves the parts."""
        heart.report("saving")
        with TemporaryDirectory() as folder:
            file = Path(folder, "rows.parquet")
            contents = (self._rows_of(one, claim, heart) for one in parts)
            write_parquet(contents, file, job.config["proofs"], max(1, self.settings.threads))
            return [self.stored_file(claim, heart, number, piece) for number, piece in enumerate(_pieces(file))]

    def _rows_of(self, file: PredictionFile, claim: Claim, heart: Heart) -> bytes:
        return self._stored(partial(self.storage.get, file.artifact), claim, heart)[ROWS]

    def stored_file(
        self, claim: Claim, heart: Heart, number: int, content: bytes, num_rows: int = 0, next_step: int = 0
    ) -> PredictionFile:
        """Stores some bytes of the result and returns their row, which is not in the database yet."""
        put = partial(self.storage.put, outcomes.prediction_owner(claim.job_id), rows_files(content))
        key = self._stored(put, claim, heart)
        return PredictionFile(
            job_id=claim.job_id,
            number=number,
            artifact=key,
            num_bytes=len(content),
            num_rows=num_rows,
            next_step=next_step,
        )

    def parts_of(self, job: Job) -> list[PredictionFile]:
        """Returns what earlier attempts have stored."""
        return self._read(lambda session: list(repository.files(session, job.id)))

    def add_part(self, claim: Claim, file: PredictionFile) -> None:
        self._write(lambda session: repository.add_part(session, claim, file))


class _Parts:
    """What is found so far: the parts of earlier attempts, those of this one, and rows that are not in a part yet."""

    def __init__(self, runner: Predicting, job: Job, claim: Claim, heart: Heart, predictor: Predictor) -> None:
        self.runner, self.job, self.claim, self.heart, self.predictor = runner, job, claim, heart, predictor
        self.files = runner.parts_of(job)
        self.num_rows = sum(file.num_rows for file in self.files)
        self.next_step = self.files[-1].next_step if self.files else 0
        self._rows: list[Prediction] = []
        self._stored_at = time.monotonic()

    @property
    def progress(self) -> Progress:
        steps, each = max(1, self.predictor.num_steps), self.predictor.questions_per_step
        share = self.next_step / steps
        return Progress(0, 0, self.next_step * each, steps * each, None, phase="prediction", done=share)

    def ask(self) -> str | None:
        """Asks the questions that are left; returns the setting that ends it early, if any."""
        settings, deadline = self.runner.settings, time.monotonic() + self.runner.settings.prediction_seconds
        stopped_by = MAX_ROWS if self.num_rows >= settings.max_prediction_rows and self._questions_left else None
        if stopped_by is None:
            for done, rows in self.predictor.batches(self.next_step):
                room = settings.max_prediction_rows - self.num_rows
                self._add(rows[:room], done if len(rows) <= room else self.next_step)
                if self._questions_left and self.num_rows >= settings.max_prediction_rows:
                    stopped_by = MAX_ROWS
                elif self._questions_left and time.monotonic() > deadline:
                    stopped_by = MAX_SECONDS
                if stopped_by is not None:
                    break
        if self._rows or not self.files:
            self._store()
        return stopped_by

    @property
    def _questions_left(self) -> bool:
        return self.next_step < self.predictor.num_steps

    def _add(self, rows: list[Prediction], next_step: int) -> None:
        self._rows += rows
        self.num_rows += len(rows)
        self.next_step = next_step
        if len(self._rows) >= PART_ROWS or time.monotonic() - self._stored_at >= PART_SECONDS:
            self._store()
        self.heart.check(self.progress)

    def _store(self) -> None:
        config = self.job.config
        content = part(self._rows, config["format"], config["proofs"], first=not self.files)
        file = self.runner.stored_file(
            self.claim, self.heart, len(self.files), content, len(self._rows), self.next_step
        )
        self.runner.add_part(self.claim, file)
        self.files.append(file)
        self._rows, self._stored_at = [], time.monotonic()


def _wanted(job: Job) -> Wanted:
    config = dict(job.config)
    config.pop("format")
    return Wanted(top_k=config.pop("top_k_per_question"), **config)


def _pieces(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while piece := opened.read(FILE_BYTES):
            yield piece
