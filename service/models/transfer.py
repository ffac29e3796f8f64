"""Exports models from one registry and imports them into another."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import BinaryIO

from sqlalchemy.orm import Session

from service.db.clock import now
from service.db.engine import Database
from service.db.tables import ModelVersion
from service.errors import Invalid, ServiceError, TooMany, Unavailable
from service.files.removals import keep, remove_later
from service.files.storage import Storage
from service.http.idempotency import CreationReply, Once
from service.kbs.repository import SAMPLE_TENANT
from service.models import repository, service
from service.models.archive import Card, CardRule, pack, rules_of, unpack
from service.names import check_name, new_id
from service.queries.batcher import Batcher, Target
from service.settings import Settings
from service.training.outcomes import add_rules, model_owner
from service.training.repository import next_version

# Files of an import whose row does not appear within this time are removed.
UNCLAIMED_SECONDS = 3600.0
# Any answer will do, even that the name is unknown: the model was loaded to tell.
PROBE = {
    "goal": ["ctp:probe", "ctp:probe", "ctp:probe"],
    "facts": [],
    "top_k": 1,
    "proofs": 0,
    "depth": None,
    "exclude_known": False,
}


def export(database: Database, storage: Storage, tenant: str, reference: str) -> tuple[str, bytes]:
    """Returns the file name and the archive, which is self-contained: the model's files hold its symbols and facts."""
    with database.read() as session:
        model = service.ready(session, tenant, reference)
        rules = repository.rules(session, model, repository.ALL_RULES)
    values = {key: getattr(model, key) for key in Card.model_fields if key != "rules"}
    values["rules"] = [{key: getattr(rule, key) for key in CardRule.model_fields} for rule in rules]
    card = Card.model_validate(values)
    return f"{model.name}-{model.version}.ctp.zip", pack(card, storage.get(model.artifact or ""))


@asynccontextmanager
async def alone(importing: asyncio.Lock, seconds: float) -> AsyncIterator[None]:
    """Lets one archive at a time into memory; raises TooMany if others take longer than `seconds`."""
    try:
        await asyncio.wait_for(importing.acquire(), seconds)
    except TimeoutError:
        raise TooMany("too_many_imports", "other imports are being unpacked: try again in a moment") from None
    try:
        yield
    finally:
        importing.release()


class Import:
    """An archive that is unpacked and checked, but not in the registry yet."""

    def __init__(self, file: BinaryIO, name: str | None, settings: Settings) -> None:
        self.card, self.files, self.config = unpack(file, settings)
        self.rules = rules_of(self.card)
        self.name = check_name(name or self.card.name)
        self.model_id = new_id("model")
        self.owner = f"{model_owner(self.model_id)}/import"
        self.artifact = ""
        parts = (self.name.encode(), self.card.model_dump_json().encode(), *(self.files[n] for n in sorted(self.files)))
        # Two imports with the same digests are the same import.
        self.content = b"".join(sha256(part).digest() for part in parts)
        self.num_bytes = sum(map(len, self.files.values()))

    def store(self, database: Database, storage: Storage) -> None:
        """Stores the files and frees their memory.

        Their removal is scheduled first, so that a kill leaves no unknown files behind.
        """
        with database.write() as session:
            remove_later(session, self.owner, UNCLAIMED_SECONDS)
        self.artifact = storage.put(self.owner, self.files)
        self.files = {}

    def drop(self, database: Database) -> None:
        with database.write() as session:
            remove_later(session, self.owner)

    def create(self, database: Database, once: Once, create: Callable[[Session], CreationReply]) -> CreationReply:
        """Registers the model; drops its files if the call is refused or repeats an earlier one.

        A ServiceError is raised before the commit. Any other error may come after it, when the files are needed, so
        they are kept; if no row needs them, their scheduled removal deletes them.
        """
        try:
            reply = once.create(database, self.content, create)
        except ServiceError:
            self.drop(database)
            raise
        if reply.replayed:
            self.drop(database)
        return reply

    def register(self, session: Session, tenant: str) -> ModelVersion:
        card = self.card
        kb = repository.kb_like(session, [tenant, SAMPLE_TENANT], card.kb_sha256)
        model = ModelVersion(
            id=self.model_id,
            tenant=tenant,
            name=self.name,
            version=next_version(session, tenant, self.name),
            status="ready",
            kb_id=kb.id if kb else None,
            method=self.config["method"],
            config=self.config,
            artifact=self.artifact,
            artifact_bytes=self.num_bytes,
            origin={"model_id": card.id, "name": card.name, "version": card.version},
            ready_at=now(),
            **card.model_dump(include={"kb_sha256", "kind", "preset", "metrics", "trials", "tags", "code_version"}),
        )
        session.add(model)
        session.flush()
        add_rules(session, model.id, self.rules)
        keep(session, self.owner)
        session.flush()
        session.refresh(model)
        return model


async def check_loads(batcher: Batcher, tenant: str, model_id: str, artifact: str) -> None:
    """Has a query worker load the model, since the API has no torch.

    Raises Invalid if the files are not a model, Unavailable if this cannot be checked now.
    """
    (reply,) = await batcher.ask(Target(tenant, model_id, artifact), [PROBE], "")
    problem = reply if isinstance(reply, dict) else {}
    if problem.get("status") == Unavailable.status:
        raise Unavailable(problem["code"], problem["detail"])
    if problem.get("status", 0) >= 500 or problem.get("code") == "bad_artifact":
        raise Invalid("bad_archive", f"the archive cannot be imported: {problem.get('detail', 'it does not load')}")
