"""Routes under `/models`."""

import csv
import io
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from sqlalchemy.orm import Session

from ctp_core.prolog_rules import clause
from ctp_core.rules import Template
from service.db.tables import Checkpoint, Job, RuleRow
from service.http.accept import preferred
from service.http.bodies import json_body
from service.http.cache import CACHE_SECONDS
from service.http.dependencies import (
    DatabaseDep,
    DownloadingDep,
    FilesDep,
    OnceDep,
    SettingsDep,
    StorageDep,
    TenantDep,
    WaitingDep,
)
from service.http.idempotency import CreationReply
from service.http.openapi import TEXT, binary, example, json_request
from service.http.pages import DEFAULT_LIMIT, Cursor, Limit, Page, decode_cursor, page
from service.http.places import Places, download
from service.http.problems import respond, retry_headers
from service.models import comparison, repository, service, transfer, warming
from service.models.contest import Asking
from service.models.repository import RuleFilter
from service.models.schemas import (
    EXAMPLE_CHECKPOINT,
    EXAMPLE_COMPARISON,
    EXAMPLE_EPOCH,
    EXAMPLE_GROUNDING,
    EXAMPLE_MODEL,
    EXAMPLE_RULE,
    AliasIn,
    CheckpointOut,
    Comparison,
    EpochOut,
    Groundings,
    ModelOut,
    RuleOut,
    TagsIn,
    Warmed,
)
from service.models.upload import OPENAPI, Archive, read_archive
from service.room import check_room
from service.settings import NAME_LIMIT
from service.training.repository import metrics

router = APIRouter(prefix="/models", tags=["models"])
JSON = "application/json"
ModelStatus = Literal["pending", "ready", "failed", "cancelled", "deleted"]
CSV_COLUMNS = ("id", "text", "template", "confidence", "weight", "support", "precision")
EXAMPLE_RULES_CSV = f'{",".join(CSV_COLUMNS)}\r\n{EXAMPLE_RULE["id"]},"{EXAMPLE_RULE["text"]}",2,0.71,3.1,12,1.0\r\n'


@router.get("", responses=example(200, {"items": [EXAMPLE_MODEL], "next_cursor": None}))
def list_models(
    database: DatabaseDep,
    tenant: TenantDep,
    name: Annotated[str | None, Query(max_length=64, description="List only versions of this model.")] = None,
    status: Annotated[ModelStatus | None, Query(description="List only versions of this status.")] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Page[ModelOut]:
    """List model versions, newest first. Deleted versions are listed only with `status=deleted`."""
    before = decode_cursor(cursor, float, str)
    position = (before[0], before[1]) if before else None
    with database.read() as session:
        rows = repository.listing(session, tenant, name, status, position, limit + 1)
        items = {item.id: item for item in service.shown(session, rows)}
    return page(rows, limit, lambda row: items[row.id], lambda row: [row.created_at, row.id])


@router.get("/compare", responses=example(200, EXAMPLE_COMPARISON))
async def compare_models(
    request: Request,
    database: DatabaseDep,
    files: FilesDep,
    tenant: TenantDep,
    ids: Annotated[
        str,
        Query(
            max_length=1500,
            description="Two or more models, separated by commas: `id`, `name`, `name@3` or `name@alias`.",
        ),
    ],
    questions: Annotated[
        int,
        Query(
            ge=0,
            le=1000,
            description="Number of questions from the test split of their KB to ask every model; 0: none.",
        ),
    ] = 100,
    disagreements: Annotated[
        int, Query(ge=0, le=1000, description="Maximum number of questions with differing answers to list.")
    ] = 20,
) -> Comparison:
    """Compare versions: settings that differ, metrics, rules, how often each is right, and where they disagree.

    If the time is up before every question is answered, the contest is about those that were: `truncated`.
    """
    references = [reference.strip() for reference in ids.split(",") if reference.strip()]
    comparing: Places = request.app.state.comparing
    with comparing.place(tenant):
        compared = await comparing.run(
            tenant, partial(comparison.prepare, database, files, tenant, references, questions)
        )
        asking = Asking(request.app.state.batcher, comparing, request.scope.get("ctp.request_id", ""))
        return await comparison.contested(compared, asking, disagreements)


@router.post("/import", status_code=201, responses=example(201, EXAMPLE_MODEL), openapi_extra=OPENAPI)
async def import_model(
    request: Request,
    archive: Annotated[Archive, Depends(read_archive)],
    response: Response,
    database: DatabaseDep,
    settings: SettingsDep,
    storage: StorageDep,
    once: OnceDep,
    name: Annotated[
        str | None, Query(max_length=64, description="Name of the model here; default: the name in the archive.")
    ] = None,
) -> ModelOut:
    """Import an archive made by `export`, here or elsewhere, as a new version that is ready at once."""
    importing: Places = request.app.state.importing
    unpack = partial(transfer.Import.stored, archive.file, name or archive.name, settings, database, storage)
    found = await request.app.state.unpacking.run(once.tenant, unpack)

    def create(session: Session) -> CreationReply:
        check_room(session, once.tenant, found.num_bytes, settings)
        model = found.register(session, once.tenant)
        shown = service.shown(session, [model])[0]
        return CreationReply(201, shown.model_dump(mode="json"), {"Location": f"/models/{model.id}"})

    try:
        await transfer.check_answers(
            request.app.state.batcher, once.tenant, found.model_id, found.artifact, found.probe
        )
        await importing.run(once.tenant, partial(found.stage, database))
    except Exception:
        await importing.run(once.tenant, partial(found.drop, database))
        raise
    reply = await importing.run(once.tenant, partial(found.create, database, once, create))
    response.headers.update(reply.headers)
    return ModelOut.model_validate(reply.body)


@router.get("/{model}", responses=example(200, EXAMPLE_MODEL))
def get_model(model: str, database: DatabaseDep, tenant: TenantDep) -> ModelOut:
    """Get one version, by id, `name` (the latest ready version), `name@3` or `name@champion`."""
    with database.read() as session:
        return service.shown(session, [service.get(session, tenant, model)])[0]


@router.get(
    "/{model}/metrics",
    summary="List the metrics of each epoch",
    responses=example(200, {"items": [EXAMPLE_EPOCH], "next_cursor": None}),
)
def list_metrics(
    model: str,
    database: DatabaseDep,
    tenant: TenantDep,
    seed: Annotated[int | None, Query(ge=0, description="Seed whose training to show; default: the best one.")] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Page[EpochOut]:
    """List loss and validation metrics by epoch, for the training that gave the model its weights."""
    after = decode_cursor(cursor, int) or [0]
    with database.read() as session:
        job = service.training_of(session, service.get(session, tenant, model), seed)
        rows = metrics(session, job.id, after[0], limit + 1) if job else []
    return page(rows, limit, lambda m: EpochOut.model_validate({**vars(m), "metrics": m.values}), lambda m: [m.epoch])


@router.get("/{model}/checkpoints", responses=example(200, {"items": [EXAMPLE_CHECKPOINT], "next_cursor": None}))
def list_checkpoints(model: str, database: DatabaseDep, tenant: TenantDep) -> Page[CheckpointOut]:
    """List checkpoints, newest first: the best and the last of each training."""

    def shown(row: Checkpoint, job: Job) -> CheckpointOut:
        return CheckpointOut.model_validate({**vars(row), "seed": job.config.get("seed")})

    with database.read() as session:
        rows = repository.checkpoints(session, service.get(session, tenant, model))
    return Page(items=[shown(row, job) for row, job in rows])


@router.put("/{name}/aliases/{alias}", responses=example(200, EXAMPLE_MODEL), openapi_extra=json_request(AliasIn))
def set_alias(
    name: str,
    alias: str,
    body: Annotated[AliasIn, Depends(json_body(AliasIn))],
    database: DatabaseDep,
    tenant: TenantDep,
) -> ModelOut:
    """Set an alias: `name@alias` means this version from now on."""
    with database.write() as session:
        return service.shown(session, [service.set_alias(session, tenant, name, alias, body.version)])[0]


@router.delete("/{name}/aliases/{alias}", status_code=204)
def delete_alias(name: str, alias: str, database: DatabaseDep, tenant: TenantDep) -> None:
    """Delete an alias; its version stays."""
    with database.write() as session:
        service.drop_alias(session, tenant, name, alias)


@router.put("/{model}/tags", responses=example(200, EXAMPLE_MODEL), openapi_extra=json_request(TagsIn))
def set_tags(
    model: str, body: Annotated[TagsIn, Depends(json_body(TagsIn))], database: DatabaseDep, tenant: TenantDep
) -> ModelOut:
    """Replace the tags of a version."""
    with database.write() as session:
        return service.shown(session, [service.set_tags(session, tenant, model, body.tags)])[0]


@router.delete("/{model}", status_code=204)
def delete_model(model: str, database: DatabaseDep, settings: SettingsDep, tenant: TenantDep) -> None:
    """Delete a version without aliases, by id or `name@3`. Its number is not reused; its files are removed soon."""
    # A query that is under way may still need the files, and look-ups of its name are remembered for a while.
    seconds = settings.reply_seconds + settings.query_seconds + CACHE_SECONDS
    with database.write() as session:
        service.delete(session, tenant, model, seconds)


@router.post(
    "/{model}/warm",
    response_model=Warmed,
    responses=example(200, {"model_id": EXAMPLE_MODEL["id"], "elapsed_ms": 812.5}),
)
async def warm_model(
    request: Request, model: str, database: DatabaseDep, files: FilesDep, waiting: WaitingDep, tenant: TenantDep
) -> Warmed | Response:
    """Load a version in a query worker, so that the first query does not wait for it."""
    target, asked = await waiting.run(tenant, partial(warming.question, database, files, tenant, model))
    state = request.app.state
    warmed = await warming.warm(state.batcher, target, asked, request.scope.get("ctp.request_id", ""))
    return warmed if isinstance(warmed, Warmed) else respond(warmed, retry_headers(warmed["status"]))


@router.get("/{model}/export", response_class=Response, responses={200: {"content": binary(transfer.ARCHIVE)}})
async def export_model(
    model: str, database: DatabaseDep, storage: StorageDep, downloading: DownloadingDep, tenant: TenantDep
) -> Response:
    """Download a version as one archive, with its symbols and facts, so that any service can import and use it."""
    begin = partial(transfer.export, database, storage, tenant, model)
    return await download(downloading, tenant, begin)


def _wanted_rules(
    predicate: Annotated[str | None, Query(max_length=NAME_LIMIT, description="Predicate of the head.")] = None,
    min_confidence: Annotated[float, Query(ge=0, le=1, description="Least confidence of the rules.")] = 0.0,
    min_support: Annotated[
        int, Query(ge=0, le=2**31 - 1, description="Least support; 0 lists rules that conclude nothing known as well.")
    ] = 1,
    min_precision: Annotated[float, Query(ge=0, le=1, description="Least precision of the rules.")] = 0.0,
    constants: Annotated[
        bool, Query(description="List rules about a named entity as well, such as `p(X,'c') :- q(X,'d')`.")
    ] = False,
    priors: Annotated[
        bool,
        Query(
            description="List rules whose body is about one of X and Y alone as well: they only say how common it is."
        ),
    ] = False,
) -> RuleFilter:
    return RuleFilter(predicate, min_confidence, min_support, min_precision, constants, priors)


@router.get(
    "/{model}/rules",
    responses={
        200: {
            "content": {
                JSON: {"example": {"items": [EXAMPLE_RULE], "next_cursor": None}},
                "text/plain": TEXT | {"example": f"{EXAMPLE_RULE['text']}.\n"},
                "text/csv": TEXT | {"example": EXAMPLE_RULES_CSV},
            }
        }
    },
    response_model=Page[RuleOut],
)
def list_rules(
    request: Request,
    model: str,
    database: DatabaseDep,
    files: FilesDep,
    tenant: TenantDep,
    wanted: Annotated[RuleFilter, Depends(_wanted_rules)],
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Page[RuleOut] | Response:
    """List learnt rules by head; within a head those that explain most (weight × support) come first.

    `Accept: text/plain` gives Prolog, `text/csv` a table; `Link` is the next page.
    """
    after = decode_cursor(cursor, int) or [-1]
    with database.read() as session:
        rows = service.rules(session, files, tenant, model, wanted, after[0], limit + 1)
    shown = page(rows, limit, _shown_rule, lambda rule: [rule.position])
    media_type = preferred(request.headers.get("accept", ""), (JSON, *RULE_WRITERS))
    if media_type == JSON:
        return shown
    text = RULE_WRITERS[media_type](rows[:limit])
    return Response(text, media_type=media_type, headers=_link(request, shown.next_cursor))


def _link(request: Request, cursor: str | None) -> dict[str, str]:
    """Returns the header with the next page, for formats that cannot hold a cursor."""
    if cursor is None:
        return {}
    following = request.url.include_query_params(cursor=cursor)
    return {"Link": f'<{following.path}?{following.query}>; rel="next"'}


def _shown_rule(rule: RuleRow) -> RuleOut:
    prior = Template.parse(rule.template).unary
    return RuleOut.model_validate({**vars(rule), "id": rule.rule_id, "prior": prior})


def _prolog(rules: Sequence[RuleRow]) -> str:
    return "".join(f"{clause(rule.head, rule.body)}\n" for rule in rules)


def _csv(rules: Sequence[RuleRow]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(CSV_COLUMNS)
    writer.writerows([r.rule_id, r.text, r.template, r.confidence, r.weight, r.support, r.precision] for r in rules)
    return text.getvalue()


RULE_WRITERS = {"text/plain": _prolog, "text/csv": _csv}


@router.get(
    "/{model}/rules/{rule_id}/groundings",
    responses=example(200, {"items": [EXAMPLE_GROUNDING], "next_cursor": None, "truncated": False}),
)
async def list_groundings(
    request: Request,
    model: str,
    rule_id: str,
    database: DatabaseDep,
    files: FilesDep,
    tenant: TenantDep,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Groundings:
    """List the facts behind a rule; those whose conclusion is a known fact come first."""
    after = max(0, (decode_cursor(cursor, int) or [0])[0])
    grounding: Places = request.app.state.grounding
    with grounding.place(tenant):
        return await grounding.run(
            tenant, partial(service.grounded, database, files, tenant, model, rule_id, after, limit)
        )
