"""Exports models from one registry and imports them into another."""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, BinaryIO

import structlog
from sqlalchemy.orm import Session

from ctp_core.errors import ArtifactError
from service.db.clock import now
from service.db.engine import Database
from service.db.tables import ModelVersion
from service.errors import Invalid, ServiceError, Unavailable
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
from service.settings import MAX_RULES, Settings
from service.training.outcomes import model_owner
from service.training.repository import next_version

log = structlog.get_logger()
ARCHIVE = "application/zip"
EXPORTED_RULES = 500  # that are read and written in a few milliseconds
# Files of an import whose row does not appear within this time are removed.
UNCLAIMED_SECONDS = 3600.0


def export(database: Database, storage: Storage, tenant: str, reference: str) -> Download:
    """Begins an archive, which is self-contained: the model's files hold its symbols and facts.

    The files are read twice, piece by piece: damage must be told before the download begins.
    """
    with database.read() as session:
        model = service.ready(session, tenant, reference)
    values = {key: getattr(model, key) for key in Card.model_fields if key != "rules"}
    card = Card.model_validate({**values, "rules": []})
    key = model.artifact or ""
    sizes = checked_sizes(storage, key)
    files = {name: (size, storage.pieces(key, name)) for name, size in sizes.items()}
    content = pack(card, exported_rules(database, model), files)
    return Download(f"{model.name}-{model.version}.ctp.zip", ARCHIVE, content)


def exported_rules(database: Database, model: ModelVersion, most: int = MAX_RULES) -> Iterator[list[dict[str, Any]]]:
    """Returns the rules some at a time; of more than `most`, without the least confident ones."""
    with database.read() as session:
        num_rules = repository.num_rules(session, model)
        left_out = repository.least_confident(session, model, max(0, num_rules - most))
    if left_out:
        log.warning("rules_left_out_of_export", model_id=model.id, rules=num_rules, left_out=len(left_out))
    return _rules_without(database, model, num_rules, left_out)


def _rules_without(
    database: Database, model: ModelVersion, num_left: int, left_out: set[int]
) -> Iterator[list[dict[str, Any]]]:
    """Yields the rules; raises ArtifactError if the model is deleted meanwhile, since a file must not be cut short."""
    after = -1
    while num_left:
        with database.read() as session:
            rules = repository.rules(session, model, repository.ALL_RULES, after, EXPORTED_RULES)
        if not rules:
            raise ArtifactError(f"the model {model.name}@{model.version} was deleted while it was being read")
        kept = [rule for rule in rules if rule.position not in left_out]
        yield [{key: getattr(rule, key) for key in CardRule.model_fields} for rule in kept]
        num_left, after = num_left - len(rules), rules[-1].position


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

    @classmethod
    def stored(
        cls, file: BinaryIO, name: str | None, settings: Settings, database: Database, storage: Storage
    ) -> "Import":
        """Unpacks an archive and stores its files; only meanwhile are they in memory."""
        found = cls(file, name, settings)
        found.store(database, storage)
        return found

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
