"""Operations on predictions: submit, find, show, download, delete, expire."""

from collections.abc import Iterator, Sequence
from typing import Any

import structlog
from sqlalchemy.orm import Session

from service import batch
from service.db.engine import Database
from service.db.tables import Job
from service.errors import Conflict, Invalid, NotFound
from service.facts.files import KbFiles
from service.files.storage import PIECE_BYTES, ROWS, Storage
from service.http.places import Download
from service.kbs import repository as kbs_repository
from service.kbs import service as kbs
from service.kbs.whole import KbRows
from service.models import repository as models_repository
from service.models import service as models
from service.predictions import repository
from service.predictions.schemas import FORMATS, PredictionOut, PredictionRequest, PredictionRow
from service.room import check_room
from service.settings import Settings
from service.training.repository import ACTIVE, PREDICT, model_references
from service.training.service import check_queue

log = structlog.get_logger()
DAY_SECONDS = 86_400.0
# A download that is under way may still need the files.
DOWNLOAD_SECONDS = 3600.0


def submit(session: Session, tenant: str, request: PredictionRequest, settings: Settings) -> Job:
    """Writes the job and its outbox row; raises Invalid for what cannot be predicted, TooMany if too many wait."""
    check_queue(session, tenant, 1, settings)
    check_room(session, tenant, 0, settings)
    model = models.ready(session, tenant, request.model)
    if model.kind != "facts":
        detail = f"{model.name}@{model.version} labels graphs, of which no link is missing: ask it with POST /query"
        raise Invalid("other_kind", detail)
    kb = batch.held_kb(session, tenant, model, request.kb)
    config = request.model_dump(mode="json", exclude={"model", "kb"})
    return batch.submit(session, tenant, PREDICT, model, kb, config)


def check(database: Database, files: KbFiles, tenant: str, request: PredictionRequest) -> None:
    """Checks the names, before a transaction is begun: a job with a name that nobody knows would fail later.

    The model must know the predicate, and the KB the entities. `submit` tells all that is wrong besides.
    """
    with database.read() as session:
        own = models_repository.kb_of(session, models.ready(session, tenant, request.model))
        kb = own if request.kb is None else kbs_repository.find(session, tenant, request.kb)
        if own is None or kb is None or own.kind != "facts" or kb.kind != "facts":
            return
        rows, own_rows = KbRows.of(session, kb), KbRows.of(session, own)
    kbs.check_predicates(own_rows.open(files), [request.predicate], "predicate")
    kbs.check_entities(rows.open(files), [*(request.subjects or ()), *(request.objects or ())])


def get(session: Session, tenant: str, prediction_id: str) -> Job:
    job = batch.find(session, tenant, PREDICT, prediction_id)
    if job is None:
        detail = f"there is no prediction {prediction_id[:80]!r}: GET /predictions lists yours"
        raise NotFound("prediction_not_found", detail)
    return job


def delete(session: Session, tenant: str, prediction_id: str) -> None:
    """Forgets a prediction and its rows; raises Conflict if it has not ended."""
    job = get(session, tenant, prediction_id)
    if job.status in ACTIVE:
        detail = f"prediction {job.id!r} is {job.status}: POST /jobs/{job.id}/cancel first"
        raise Conflict("prediction_active", detail)
    repository.remove_files(session, job.id, DOWNLOAD_SECONDS)
    session.delete(job)


def expire(database: Database, settings: Settings) -> None:
    """Removes the files of predictions that ended CTP_RESULT_DAYS ago; their figures stay."""
    with database.read() as session:
        expired = repository.expired(session, settings.result_days * DAY_SECONDS)
    for job_id in expired:
        with database.write() as session:
            repository.remove_files(session, job_id, DOWNLOAD_SECONDS)
        log.info("prediction_expired", job_id=job_id)


def download(database: Database, storage: Storage, tenant: str, prediction_id: str) -> Download:
    """Begins to send the rows. Each file is checked before any of it is sent.

    Raises Conflict if there is nothing to download, and ArtifactError if the first file is gone or damaged.
    """
    with database.read() as session:
        job = get(session, tenant, prediction_id)
        files = repository.files(session, job.id) if job.status == "succeeded" else []
    if not files:
        raise _nothing_to_download(job)
    found = FORMATS[job.config["format"]]
    name = f"prediction-{job.id.removeprefix('job_')}.{found.suffix}"
    keys = [file.artifact for file in files]
    first = storage.get(keys[0])[ROWS]
    size = sum(file.num_bytes for file in files)
    return Download(name, found.media_type, _sent(storage, first, keys[1:]), size)


def _sent(storage: Storage, first: bytes, keys: Sequence[str]) -> Iterator[bytes]:
    for key in (None, *keys):
        rows = first if key is None else storage.get(key)[ROWS]
        for start in range(0, len(rows), PIECE_BYTES):
            yield rows[start : start + PIECE_BYTES]


def _nothing_to_download(job: Job) -> Conflict:
    if job.status == "succeeded":
        detail = f"the rows of prediction {job.id!r} were kept for CTP_RESULT_DAYS and are removed: predict again"
        return Conflict("prediction_expired", detail)
    remedy = "wait for its end" if job.status in ACTIVE else "predict again"
    return Conflict("prediction_not_ready", f"prediction {job.id!r} is {job.status}: {remedy}")


def look_up(session: Session, tenant: str, prediction_id: str, settings: Settings) -> PredictionOut:
    job = get(session, tenant, prediction_id)
    lists = {name: job.config[name] for name in ("subjects", "objects")}
    return PredictionOut.model_validate({**_values(session, [job], settings)[0], **lists})


def listed(session: Session, jobs: Sequence[Job], settings: Settings) -> list[PredictionRow]:
    return [PredictionRow.model_validate(values) for values in _values(session, jobs, settings)]


def _values(session: Session, jobs: Sequence[Job], settings: Settings) -> list[dict[str, Any]]:
    models, names = model_references(session, jobs), batch.kb_names(session, {job.kb_id for job in jobs})
    sizes = repository.bytes_of(session, jobs)
    return [
        {
            **vars(job),
            **job.config,
            **(job.result or {}),
            "num_subjects": None if job.config["subjects"] is None else len(job.config["subjects"]),
            "num_objects": None if job.config["objects"] is None else len(job.config["objects"]),
            "model": models[job.model_id],
            "kb": names.get(job.kb_id),
            "num_bytes": sizes.get(job.id) if job.status == "succeeded" else None,
            "expires_at": _expiry(job, settings) if job.id in sizes else None,
            "waiting_for": job.waiting_for if job.status == "running" else None,
        }
        for job in jobs
    ]


def _expiry(job: Job, settings: Settings) -> float | None:
    ended = job.status == "succeeded" and job.finished_at is not None
    return job.finished_at + settings.result_days * DAY_SECONDS if ended and job.finished_at else None
