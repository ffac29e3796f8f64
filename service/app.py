"""Builds the FastAPI app: the only place where its parts are put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from ctp_core import __version__
from service.db.engine import Database
from service.evaluations.router import router as evaluations
from service.facts.files import KbFiles
from service.files.stores import make_storage
from service.health.router import router as health
from service.health.service import Parts
from service.http.cache import Cache
from service.http.document import complete, operation_id
from service.http.limits import BodyLimit, RateLimit
from service.http.openapi import PROBLEMS
from service.http.parameters import KNOWN_PARAMETERS
from service.http.places import downloads, waiting
from service.http.problems import add_problem_handlers
from service.http.request_log import Observed
from service.http.shared_threads import IN_TURN, SharedThreads
from service.http.turns import Turns
from service.http.unread import UnreadLimit
from service.kbs.router import formats
from service.kbs.router import router as kbs
from service.kbs.upload import uploading
from service.keys.gate import Gate
from service.keys.service import Keyring
from service.logs import configure_logs
from service.models.comparison import comparing
from service.models.groundings import grounding
from service.models.router import router as models
from service.models.upload import importing
from service.predictions.router import router as predictions
from service.queries.batcher import Batcher
from service.queries.router import router as queries
from service.queries.service import Targets
from service.queue import make_redis
from service.settings import Settings, get_settings
from service.training.feed import Feeds
from service.training.router import router as training
from service.web.router import add_page

# `/readyz` needs no key, so its look-ups are shared between frequent callers.
PARTS_SECONDS = 0.25
DESCRIPTION = "Train Conditional Theorem Provers on your facts, and get answers with the proofs that support them."


# What ends its threads when the API stops, in this order.
STOPPED = (
    "feeds",
    "waiting",
    "comparing",
    "downloading",
    "grounding",
    "importing",
    "unpacking",
    "uploading",
    "targets",
)


def create_app(settings: Settings | None = None) -> FastAPI:
    settings = settings or get_settings()
    configure_logs(settings.log_level)
    app = FastAPI(
        title="CTP",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        responses=PROBLEMS,
        generate_unique_id_function=operation_id,
    )
    add_stores(app, settings)
    add_places(app, settings)
    add_problem_handlers(app)
    add_middleware(app, settings)
    add_routes(app)
    complete(app)
    return app


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Runs the batcher while the API runs; afterwards ends all threads and connections."""
    app.state.batcher = Batcher(app.state.settings)
    await app.state.batcher.start()
    try:
        yield
    finally:
        await app.state.batcher.stop()
        for name in STOPPED:
            getattr(app.state, name).stop()
        app.state.files.close()
        app.state.redis.close()
        app.state.database.dispose()
        app.state.look_ups.dispose()


def add_stores(app: FastAPI, settings: Settings) -> None:
    """Opens the database, the storage and Redis, and what looks whether they are there."""
    app.state.settings = settings
    app.state.database = Database(settings.database)
    app.state.storage = make_storage(settings)
    app.state.files = KbFiles.of(settings, app.state.storage)
    app.state.redis = make_redis(settings)
    # Whatever takes all connections of the routes, keys and targets of queries are still looked up.
    app.state.look_ups = app.state.database.twin()
    app.state.targets = Targets(app.state.look_ups)
    app.state.feeds = Feeds(app.state.database)
    parts = Parts(app.state.database, app.state.redis, app.state.storage)
    app.state.parts = Cache(lambda _: parts.states(), PARTS_SECONDS)


def add_places(app: FastAPI, settings: Settings) -> None:
    """Gives each kind of costly call its places and threads."""
    app.state.shared_threads = SharedThreads()
    app.state.waiting = waiting(settings.max_waiting_calls)
    app.state.downloading = downloads(settings.max_downloads)
    app.state.comparing = comparing(settings.max_comparisons)
    app.state.grounding = grounding(settings.max_groundings)
    app.state.importing = importing(settings.max_imports)
    app.state.uploading = uploading(settings.max_uploads)
    app.state.unpacking = Turns(1, "unpack")  # one archive at a time is in memory


def add_middleware(app: FastAPI, settings: Settings) -> None:
    """The last one added is the first to see a request."""
    app.add_middleware(BodyLimit, settings=settings)
    app.add_middleware(UnreadLimit, settings=settings)
    app.add_middleware(RateLimit, settings=settings)
    app.add_middleware(Gate, keyring=Keyring(app.state.look_ups, settings))
    app.add_middleware(Observed)


def add_routes(app: FastAPI) -> None:
    """Routes are tried in order, so the one that must be fastest comes first."""
    app.include_router(queries)
    app.include_router(health)
    for router in (kbs, formats, training, models, evaluations, predictions):
        app.include_router(router, dependencies=[KNOWN_PARAMETERS, IN_TURN])
    add_page(app)
