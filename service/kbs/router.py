"""`/kbs`."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from sqlalchemy.orm import Session

from service.db.tables import Kb
from service.dependencies import DatabaseDep, SettingsDep, TenantDep
from service.idempotency import OnceDep, Reply
from service.kbs import repository, service
from service.kbs.schemas import EXAMPLE_KB, FactOut, KbCreate, KbOut, SymbolOut
from service.kbs.upload import Upload, read_upload
from service.openapi import example, upload_body
from service.pages import DEFAULT_LIMIT, Cursor, Limit, Page, decode_cursor, page

router = APIRouter(prefix="/kbs", tags=["knowledge bases"])


def shown(kb: Kb) -> KbOut:
    return KbOut.model_validate({**vars(kb), "sample": kb.tenant == repository.SAMPLE_TENANT})


@router.post("", status_code=201, responses=example(201, EXAMPLE_KB), openapi_extra=upload_body(KbCreate))
def create_kb(
    upload: Annotated[Upload, Depends(read_upload)],
    response: Response,
    database: DatabaseDep,
    settings: SettingsDep,
    once: OnceDep,
) -> KbOut:
    """Upload a knowledge base, as JSON facts or as files. The same content under the same name is answered with 200."""
    prepared = service.prepare(upload.splits(settings))

    def create(session: Session) -> Reply:
        kb, created = service.create(session, once.tenant, upload.name, prepared)
        body = shown(kb).model_dump(mode="json")
        return Reply(201 if created else 200, body, {"Location": f"/kbs/{kb.id}"})

    reply = once.create(database, f"{upload.name}\n{prepared.sha256}".encode(), create)
    response.status_code = reply.status
    response.headers.update(reply.headers)
    return KbOut.model_validate(reply.body)


@router.get("", responses=example(200, {"items": [EXAMPLE_KB], "next_cursor": None}))
def list_kbs(
    database: DatabaseDep, tenant: TenantDep, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Page[KbOut]:
    """The KBs you can use: your own and the samples."""
    after = decode_cursor(cursor, int) or [0]
    with database.read() as session:
        rows = repository.listing(session, tenant, after[0], limit + 1)
    return page(rows, limit, shown, lambda kb: [kb.number])


@router.get("/{kb}", responses=example(200, EXAMPLE_KB))
def get_kb(kb: str, database: DatabaseDep, tenant: TenantDep) -> KbOut:
    """One KB, by id or name."""
    with database.read() as session:
        return shown(service.get(session, tenant, kb))


@router.get("/{kb}/facts")
def list_facts(
    kb: str,
    database: DatabaseDep,
    tenant: TenantDep,
    subject: Annotated[str | None, Query(max_length=512)] = None,
    predicate: Annotated[str | None, Query(max_length=512)] = None,
    object: Annotated[str | None, Query(max_length=512)] = None,  # noqa: A002  the name on the wire
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Page[FactOut]:
    """Facts in the order of the upload, filtered by any of their three places."""
    after = decode_cursor(cursor, int) or [-1]
    with database.read() as session:
        row = service.get(session, tenant, kb)
        rows = repository.facts(session, row, (subject, predicate, object), after[0], limit + 1)
    return page(rows, limit, lambda r: FactOut(split=r[1], **r[2]._asdict()), lambda r: [r[0]])


@router.get("/{kb}/predicates")
def list_predicates(
    kb: str, database: DatabaseDep, tenant: TenantDep, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Page[SymbolOut]:
    """Predicates with the number of their facts."""
    return _symbols(database, tenant, kb, "predicate", "", limit, cursor)


@router.get("/{kb}/entities")
def list_entities(
    kb: str,
    database: DatabaseDep,
    tenant: TenantDep,
    prefix: Annotated[str, Query(max_length=512)] = "",
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Page[SymbolOut]:
    """Entities whose names begin with `prefix`."""
    return _symbols(database, tenant, kb, "entity", prefix, limit, cursor)


def _symbols(
    database: DatabaseDep, tenant: str, kb: str, role: str, prefix: str, limit: int, cursor: str | None
) -> Page[SymbolOut]:
    after = decode_cursor(cursor, int) or [-1]
    with database.read() as session:
        rows = repository.symbols(session, service.get(session, tenant, kb), role, prefix, after[0], limit + 1)
    return page(rows, limit, lambda s: SymbolOut(name=s.name, num_facts=s.num_facts), lambda s: [s.position])


@router.delete("/{kb}", status_code=204)
def delete_kb(kb: str, database: DatabaseDep, tenant: TenantDep) -> None:
    """Delete a KB that no model stands on."""
    service.delete(database, tenant, kb)
