"""`/kbs` and `/formats`."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from sqlalchemy.orm import Session

from ctp_core.kb.formats.registry import FORMATS
from service.db.engine import Database
from service.db.tables import Kb
from service.facts.files import KbFiles
from service.facts.reading import StoredFacts
from service.http.dependencies import DatabaseDep, DownloadingDep, FilesDep, OnceDep, SettingsDep, TenantDep
from service.http.idempotency import CreationReply, Once
from service.http.openapi import TEXT, example, upload_body
from service.http.pages import DEFAULT_LIMIT, Cursor, Limit, Page, decode_cursor, page
from service.http.places import Download, Places, download
from service.kbs import repository, service
from service.kbs.kinds import check_format, default_format, suffix
from service.kbs.schemas import (
    EXAMPLE_FACT,
    EXAMPLE_FORMAT,
    EXAMPLE_KB,
    EXAMPLE_NEIGHBOURHOOD,
    EXAMPLE_SYMBOL,
    FactOut,
    FormatOut,
    KbCreate,
    KbOut,
    NeighbourhoodOut,
    Split,
    SymbolOut,
)
from service.kbs.service import FoundFact, FoundSymbol
from service.kbs.upload import Upload, read_upload
from service.room import check_room
from service.settings import NAME_LIMIT, Settings

router = APIRouter(prefix="/kbs", tags=["knowledge bases"])
formats = APIRouter(tags=["knowledge bases"])


@formats.get("/formats", responses=example(200, {"items": [EXAMPLE_FORMAT], "next_cursor": None}))
def list_formats() -> Page[FormatOut]:
    """The formats that KBs are uploaded from and exported to."""
    return Page(
        items=[FormatOut.model_validate({**vars(f), "writable": f.write is not None}) for f in FORMATS.values()]
    )


def shown_symbol(symbol: FoundSymbol) -> SymbolOut:
    return SymbolOut(name=symbol.name, num_facts=symbol.num_facts)


def shown(kb: Kb) -> KbOut:
    return KbOut.model_validate({**vars(kb), "sample": kb.tenant == repository.SAMPLE_TENANT})


@router.post(
    "", summary="Upload a KB", status_code=201, responses=example(201, EXAMPLE_KB), openapi_extra=upload_body(KbCreate)
)
async def create_kb(
    request: Request,
    upload: Annotated[Upload, Depends(read_upload)],
    response: Response,
    database: DatabaseDep,
    files: FilesDep,
    settings: SettingsDep,
    once: OnceDep,
) -> KbOut:
    """Upload a knowledge base, as JSON facts or as files. Answers 200 if the same content has this name already."""
    uploading: Places = request.app.state.uploading
    answer = await uploading.run(once.tenant, partial(_loaded, upload, database, files, settings, once))
    response.status_code = answer.status
    response.headers.update(answer.headers)
    return KbOut.model_validate(answer.body)


def _loaded(upload: Upload, database: Database, files: KbFiles, settings: Settings, once: Once) -> CreationReply:
    built = upload.build(settings)
    content = f"{upload.name}\n{built.sha256}".encode()
    kept = once.kept(database, content)
    if kept is not None:
        return kept
    with service.begin_load(database, files, once.tenant, upload.name, built) as load:

        def finish(session: Session) -> CreationReply:
            check_room(session, once.tenant, load.num_bytes, settings)
            return _reply(load.finish(session), load.created)

        return once.create(database, content, finish)


def _reply(kb: Kb, created: bool) -> CreationReply:
    return CreationReply(201 if created else 200, shown(kb).model_dump(mode="json"), {"Location": f"/kbs/{kb.id}"})


@router.get("", summary="List KBs", responses=example(200, {"items": [EXAMPLE_KB], "next_cursor": None}))
def list_kbs(
    database: DatabaseDep, tenant: TenantDep, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Page[KbOut]:
    """List the KBs that you can use: your own and the samples."""
    after = decode_cursor(cursor, int) or [0]
    with database.read() as session:
        rows = repository.listing(session, tenant, after[0], limit + 1)
    return page(rows, limit, shown, lambda kb: [kb.number])


@router.get("/{kb}", summary="Get a KB", responses=example(200, EXAMPLE_KB))
def get_kb(kb: str, database: DatabaseDep, tenant: TenantDep) -> KbOut:
    """Get one KB, by id or name."""
    with database.read() as session:
        return shown(service.get(session, tenant, kb))


def stored_kb(kb: str, database: DatabaseDep, files: FilesDep, tenant: TenantDep) -> StoredFacts:
    """Opens the KB that the path names."""
    return service.rows_of(database, tenant, kb).open(files)


StoredDep = Annotated[StoredFacts, Depends(stored_kb)]
Name = Annotated[str | None, Query(max_length=NAME_LIMIT, description="List only facts with this name here.")]


def shown_fact(found: FoundFact) -> FactOut:
    return FactOut(split=found.split, **found.fact._asdict())


@router.get("/{kb}/facts", responses=example(200, {"items": [EXAMPLE_FACT], "next_cursor": None}))
def list_facts(
    stored: StoredDep,
    subject: Name = None,
    predicate: Name = None,
    object: Name = None,  # noqa: A002  the name on the wire
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Page[FactOut]:
    """List facts, filtered by subject, predicate or object. Without a filter they come in the order of the upload."""
    pattern = (subject, predicate, object)
    after = decode_cursor(cursor, *([int] * (4 if any(name is not None for name in pattern) else 1)))
    found = service.facts(stored, pattern, after, limit + 1)
    return page(found, limit, shown_fact, lambda fact: fact.key)


@router.get("/{kb}/neighbourhood", responses=example(200, EXAMPLE_NEIGHBOURHOOD))
def get_neighbourhood(
    stored: StoredDep,
    entity: Annotated[str, Query(max_length=NAME_LIMIT, description="Name of the entity.")],
    limit: Limit = DEFAULT_LIMIT,
) -> NeighbourhoodOut:
    """List the facts around an entity: those with it as subject, and those with it as object."""
    found, more = service.neighbourhood(stored, entity, limit)
    return NeighbourhoodOut(entity=entity, items=[shown_fact(fact) for fact in found], truncated=more)


@router.get("/{kb}/predicates", responses=example(200, {"items": [EXAMPLE_SYMBOL], "next_cursor": None}))
def list_predicates(
    stored: StoredDep,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Page[SymbolOut]:
    """List the predicates of a KB, each with its number of facts."""
    after = decode_cursor(cursor, int) or [-1]
    rows = service.predicates(stored, after[0], limit + 1)
    return page(rows, limit, shown_symbol, lambda symbol: [symbol.number])


@router.get("/{kb}/entities", responses=example(200, {"items": [EXAMPLE_SYMBOL], "next_cursor": None}))
def list_entities(
    stored: StoredDep,
    prefix: Annotated[str, Query(max_length=NAME_LIMIT, description="Beginning of the names; empty: all.")] = "",
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Page[SymbolOut]:
    """List the entities whose names begin with `prefix`, sorted by name."""
    after = decode_cursor(cursor, str) or [""]
    rows = service.entities(stored, prefix, after[0], limit + 1)
    return page(rows, limit, shown_symbol, lambda symbol: [symbol.name])


@router.get(
    "/{kb}/export",
    summary="Export a KB",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/tab-separated-values": TEXT | {"example": "rick\tparent\tbeth\n"}}}},
)
async def export_kb(
    kb: str,
    database: DatabaseDep,
    files: FilesDep,
    downloading: DownloadingDep,
    tenant: TenantDep,
    format: Annotated[str | None, Query(max_length=32, description="As `GET /formats` names it.")] = None,  # noqa: A002
    split: Annotated[Split | None, Query(description="One split only; else all of them, one after the other.")] = None,
) -> StreamingResponse:
    """Download a KB as a file, in any format of its kind."""

    def begin() -> Download:
        rows = service.rows_of(database, tenant, kb)
        row = rows.kb
        name = check_format(format or default_format(row.kind), row.kind, written=True)
        file = f"{row.name}{f'-{split}' if split else ''}{suffix(name)}"
        return Download(file, FORMATS[name].media_type, service.export(database, files, rows, name, split))

    return await download(downloading, tenant, begin)


@router.delete("/{kb}", summary="Delete a KB", status_code=204)
def delete_kb(kb: str, database: DatabaseDep, tenant: TenantDep) -> None:
    """Delete a KB that no model uses."""
    service.delete(database, tenant, kb)
