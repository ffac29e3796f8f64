"""Exports models from one registry and imports them into another."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import BinaryIO

from sqlalchemy.orm import Session

from service.db.clock import now
from service.db.engine import Database
from service.db.tables import ModelVersion
from service.errors import Invalid, ServiceError, TooMany, Unavailable
from service.files.removals import keep, remove_later
from service.files.storage import Storage, checked_sizes
from service.http.idempotency import CreationReply, Once
from service.http.places import Download
from service.kbs.repository import SAMPLE_TENANT
from service.models import repository, service, staging
from service.models.archive import Card, CardRule, pack, unpack
from service.models.probe import Question, probe
from service.names import check_name, new_id
from service.queries.batcher import Batcher, Target
from service.settings import Settings
from service.training.outcomes import model_owner
from service.training.repository import next_version

ARCHIVE = "application/zip"
# Files of an import whose row does not appear within this time are removed.
UNCLAIMED_SECONDS = 3600.0


def export(database: Database, storage: Storage, tenant: str, reference: str) -> Download:
    """Begins an archive, which is self-contained: the model's files hold its symbols and facts.

    The files are read twice, piece by piece: damage must be told before the download begins.
    """
    with database.read() as session:
        model = service.ready(session, tenant, reference)
        rules = repository.rules(session, model, repository.ALL_RULES)
    values = {key: getattr(model, key) for key in Card.model_fields if key != "rules"}
    values["rules"] = [{key: getattr(rule, key) for key in CardRule.model_fields} for rule in rules]
    card = Card.model_validate(values)
    key = model.artifact or ""
    sizes = checked_sizes(storage, key)
    files = {name: (size, storage.pieces(key, name)) for name, size in sizes.items()}
    return Download(f"{model.name}-{model.version}.ctp.zip", ARCHIVE, pack(card, files))


@asynccontextmanager
async def alone(unpacking: asyncio.Lock, seconds: float) -> AsyncIterator[None]:
    """Lets one archive at a time into memory; raises TooMany if others take longer than `seconds`."""
    try:
        await asyncio.wait_for(unpacking.acquire(), seconds)
    except TimeoutError:
        raise TooMany("too_many_imports", "other imports are being unpacked: try again in a moment") from None
    try:
        yield
    finally:
        unpacking.release()


class Import:
    """An archive that is unpacked and checked, but not in the registry yet."""

    def __init__(self, file: BinaryIO, name: str | None, settings: Settings) -> None:
        self.card, self.rules, self.files, self.config = unpack(file, settings)
        self.probe = probe(self.files)
        self.name = check_name(name or self.card.name)
        self.model_id = new_id("model")
        self.owner = f"{model_owner(self.model_id)}/import"
        self.artifact = ""
        rules = sha256()
        for rule in self.rules:
            rules.update(rule)
        parts = (self.name.encode(), self.card.model_dump_json().encode(), *(self.files[n] for n in sorted(self.files)))
        # Two imports with the same digests are the same import.
        self.content = b"".join([rules.digest(), *(sha256(part).digest() for part in parts)])
        self.num_bytes = sum(map(len, self.files.values()))

    def store(self, database: Database, storage: Storage) -> None:
        """Stores the files and frees their memory.

        Their removal is scheduled first, so that a kill leaves no unknown files behind.
        """
        with database.write() as session:
            remove_later(session, self.owner, UNCLAIMED_SECONDS)
        self.artifact = storage.put(self.owner, self.files)
        self.files = {}

    def stage(self, database: Database) -> None:
        """Writes the version and its rules, which nobody sees before `register`."""
        card = self.card
        model = ModelVersion(
            id=self.model_id,
            method=self.config["method"],
            config=self.config,
            origin={"model_id": card.id, "name": card.name, "version": card.version},
            **card.model_dump(include={"kb_sha256", "kind", "preset", "metrics", "trials", "tags", "code_version"}),
        )
        staging.stage(database, model, self.rules)

    def drop(self, database: Database) -> None:
        with database.write() as session:
            keep(session, self.owner)  # until the removal that follows, which is due at once
            remove_later(session, self.owner)
        staging.unstage(database, self.model_id)

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
        """Makes the staged version visible when the session commits; raises Unavailable if it is gone."""
        kb = repository.kb_like(session, [tenant, SAMPLE_TENANT], self.card.kb_sha256)
        model = staging.staged(session, self.model_id)
        model.tenant, model.name, model.version = tenant, self.name, next_version(session, tenant, self.name)
        model.kb_id = kb.id if kb else None
        model.artifact, model.artifact_bytes = self.artifact, self.num_bytes
        model.status, model.created_at, model.ready_at = "ready", now(), now()
        if not keep(session, self.owner):
            raise staging.lost()
        session.flush()
        session.refresh(model)
        return model


async def check_answers(
    batcher: Batcher, tenant: str, model_id: str, artifact: str, questions: Sequence[Question]
) -> None:
    """Has a query worker load the model and answer, since the API has no torch.

    Raises Invalid if the files are not a model or it fails to answer, Unavailable if this cannot be checked now.
    """
    for reply in await batcher.ask(Target(tenant, model_id, artifact), questions, ""):
        problem = reply if isinstance(reply, dict) else {}
        if problem.get("status") == Unavailable.status:
            raise Unavailable(problem["code"], problem["detail"])
        if problem.get("status", 0) >= 500 or problem.get("code") == "bad_artifact":
            reason = problem.get("detail", "it does not load")
            raise Invalid("bad_archive", f"the archive cannot be imported: {reason}; export the model again")
