"""Builds the FastAPI app: the only place where its parts are put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from ctp_core import __version__
from service.db.engine import Database
from service.evaluations.router import router as evaluations
from service.files.storage import make_storage
from service.health.router import router as health
from service.health.service import Parts
from service.http.cache import Cache
from service.http.limits import BodyLimit, RateLimit
from service.http.openapi import PROBLEMS
from service.http.parameters import KNOWN_PARAMETERS
from service.http.places import downloads
from service.http.problems import add_problem_handlers
from service.http.request_log import Observed
from service.http.turns import Turns
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
from service.queries.batcher import Batcher
from service.queries.router import router as queries
from service.queries.service import Targets
from service.queue import make_redis
from service.settings import Settings, get_settings
from service.training.feed import Feeds
from service.training.router import router as training
from service.training.waiting import Waiting
from service.web.router import add_page

# `/readyz` needs no key, so its look-ups are shared between frequent callers.
PARTS_SECONDS = 0.25
DESCRIPTION = "Train Conditional Theorem Provers on your facts, and get answers with the proofs that support them."


def create_app(settings: Settings | None = None) -> FastAPI:
    settings = settings or get_settings()
    configure_logs(settings.log_level)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.batcher = Batcher(settings)
        await app.state.batcher.start()
        try:
            yield
        finally:
            await app.state.batcher.stop()
            app.state.feeds.stop()
            app.state.waiting.stop()
            app.state.comparing.stop()
            app.state.downloading.stop()
            app.state.grounding.stop()
            app.state.importing.stop()
            app.state.unpacking.stop()
            app.state.uploading.stop()
            app.state.targets.stop()
            app.state.redis.close()
            app.state.database.dispose()
            look_ups.dispose()

    app = FastAPI(
        title="CTP",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        responses=PROBLEMS,
    )
    app.state.settings = settings
    app.state.database = Database(settings.database)
    app.state.storage = make_storage(settings)
    # Whatever takes all connections of the routes, keys and targets of queries are still looked up.
    look_ups = app.state.database.twin()
    app.state.targets = Targets(look_ups)
    app.state.waiting = Waiting(settings.max_waiting_calls)
    app.state.feeds = Feeds(app.state.database)
    app.state.downloading = downloads(settings.max_downloads)
    app.state.comparing = comparing(settings.max_comparisons)
    app.state.grounding = grounding(settings.max_groundings)
    app.state.importing = importing(settings.max_imports)
    app.state.uploading = uploading(settings.max_uploads)
    app.state.unpacking = Turns(1, "unpack")  # one archive at a time is in memory
    app.state.redis = make_redis(settings)
    parts = Parts(app.state.database, app.state.redis, app.state.storage)
    app.state.parts = Cache(lambda _: parts.states(), PARTS_SECONDS)
    add_problem_handlers(app)
    # The last one added is the first to see a request.
    app.add_middleware(BodyLimit, settings=settings)
    app.add_middleware(RateLimit, settings=settings)
    app.add_middleware(Gate, keyring=Keyring(look_ups, settings))
    app.add_middleware(Observed)
    # Routes are tried in order, so the one that must be fastest comes first.
    app.include_router(queries)
    app.include_router(health)
    for router in (kbs, formats, training, models, evaluations):
        app.include_router(router, dependencies=[KNOWN_PARAMETERS])
    add_page(app)
    return app
