"""Dependencies of routes: the only place where routes reach the state of the process."""

from typing import Annotated

from fastapi import Depends, Header, Request

from service.db.engine import Database
from service.facts.files import KbFiles
from service.files.storage import Storage
from service.http.idempotency import Once
from service.http.orders import Order
from service.http.places import Places
from service.settings import Settings
from service.training.feed import Feeds


async def get_database(request: Request) -> Database:
    database: Database = request.app.state.database
    return database


async def get_app_settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


async def get_storage(request: Request) -> Storage:
    storage: Storage = request.app.state.storage
    return storage


async def get_files(request: Request) -> KbFiles:
    files: KbFiles = request.app.state.files
    return files


async def get_tenant(request: Request) -> str:
    """Returns the tenant that the gate has set; public routes have none and must not ask for it."""
    tenant: str = request.scope["ctp.tenant"]
    return tenant


async def get_waiting(request: Request) -> Places:
    waiting: Places = request.app.state.waiting
    return waiting


async def get_feeds(request: Request) -> Feeds:
    feeds: Feeds = request.app.state.feeds
    return feeds


async def get_downloading(request: Request) -> Places:
    downloading: Places = request.app.state.downloading
    return downloading


DatabaseDep = Annotated[Database, Depends(get_database)]
SettingsDep = Annotated[Settings, Depends(get_app_settings)]
FilesDep = Annotated[KbFiles, Depends(get_files)]
StorageDep = Annotated[Storage, Depends(get_storage)]
TenantDep = Annotated[str, Depends(get_tenant)]
WaitingDep = Annotated[Places, Depends(get_waiting)]
FeedsDep = Annotated[Feeds, Depends(get_feeds)]
DownloadingDep = Annotated[Places, Depends(get_downloading)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="Any string. A call repeated with the same key and body within 24 hours runs only once.",
    ),
]


async def get_once(request: Request, tenant: TenantDep, key: IdempotencyKey = None) -> Once:
    return Once(tenant, f"{request.method} {request.scope['route'].path}", key)


OnceDep = Annotated[Once, Depends(get_once)]


async def get_order(request: Request, database: DatabaseDep, once: OnceDep) -> Order:
    return Order(once, database, request.app.state.shared_threads)


OrderDep = Annotated[Order, Depends(get_order)]
