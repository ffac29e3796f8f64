"""Operations on models: find, show, alias, tag, delete, list rules and groundings."""

from collections.abc import Sequence
from typing import cast

from sqlalchemy.orm import Session

from ctp_core.kb.knowledge_base import Kind
from ctp_core.methods import METHODS
from service.db.clock import now
from service.db.engine import Database, lock_name
from service.db.tables import Alias, Job, Kb, ModelVersion, RuleRow
from service.errors import Conflict, Invalid, NotFound
from service.facts.files import KbFiles
from service.files.removals import remove_later
from service.http.pages import encode_cursor
from service.http.suggestions import not_found, unknown_symbol
from service.kbs.whole import KbRows
from service.models import groundings, repository
from service.models.schemas import CardFigures, FactRef, GroundingOut, Groundings, Lineage, ModelOut
from service.names import check_name
from service.training.outcomes import checkpoint_owner, model_owner

NAMED_VERSIONS = 10  # where one is asked for that is not there
# What the job of an unfinished version can tell about it.
TOLD_BY_JOBS = {"pending": "how far it is", "failed": "why"}


def get(session: Session, tenant: str, reference: str) -> ModelVersion:
    model = repository.find(session, tenant, reference)
    if model is None:
        name, at, _ = reference.partition("@")
        versions = repository.known_versions(session, tenant, name, NAMED_VERSIONS) if at else []
        if versions:
            detail = f"there is no model {reference[:140]!r}: of {name!r} there are {', '.join(versions)}"
            raise NotFound("model_not_found", detail, versions=versions)
        known = repository.names(session, tenant)
        raise not_found("model_not_found", "model", reference, known, "GET /models lists your models")
    return model


def ready(session: Session, tenant: str, reference: str) -> ModelVersion:
    """Returns a model that can answer; raises Conflict with the reason if it cannot."""
    model = get(session, tenant, reference)
    if model.status != "ready" or model.artifact is None:
        job = repository.jobs(session, [model]).get(model.id)
        told = TOLD_BY_JOBS.get(model.status)
        follow = f": GET /jobs/{job} tells {told}" if job and told else ""
        raise Conflict("model_not_ready", f"model {reference!r} is {model.status}{follow}")
    return model


def shown(session: Session, models: Sequence[ModelVersion]) -> list[ModelOut]:
    aliases, jobs = repository.aliases(session, models), repository.jobs(session, models)
    kb_names, figures = repository.kb_names(session, models), repository.evaluations(session, models)
    return [
        ModelOut.model_validate(
            {
                **vars(model),
                "explainable": _explainable(model),
                "aliases": aliases[model.id],
                "evaluations": _newest(figures[model.id]),
                "lineage": Lineage(
                    kb_id=model.kb_id,
                    kb_name=kb_names.get(model.kb_id or ""),
                    kb_sha256=model.kb_sha256,
                    code_version=model.code_version,
                    seed=model.config.get("seed"),
                    job_id=jobs.get(model.id),
                    trained_by=model.trained_by,
                    imported_from=model.origin,
                ),
            }
        )
        for model in models
    ]


def _newest(evaluations: Sequence[Job]) -> list[CardFigures]:
    """The newest of each split of each KB."""
    newest: dict[tuple[str, str], CardFigures] = {}
    for job in evaluations:
        split, limit = job.config["split"], job.config["limit"]
        metrics = job.progress.get("metrics", {})
        shown = CardFigures(id=job.id, split=split, kb_id=job.kb_id, limit=limit, metrics=metrics)
        newest.setdefault((split, job.kb_id), shown)
    return list(newest.values())


def _explainable(model: ModelVersion) -> bool:
    """Holds also for a method that this version no longer has: its answers are what they were."""
    found = METHODS.get((cast(Kind, model.kind), model.method))
    return found is None or found.config.explainable


def training_of(session: Session, model: ModelVersion, seed: int | None) -> Job | None:
    """Returns the job of a seed, or the one that trained the model's weights; None for an imported model.

    Raises NotFound if the model was not trained with the seed.
    """
    jobs = repository.trainings(session, model)
    if seed is None:
        return jobs[0] if jobs else None
    for job in jobs:
        if job.config.get("seed") == seed:
            return job
    raise NotFound("seed_not_found", f"model {model.id!r} was not trained with seed {seed}")


def set_alias(session: Session, tenant: str, name: str, alias: str, version: int) -> ModelVersion:
    """Points the alias to a ready version of this model."""
    check_name(alias)
    if alias.isdigit():
        raise Invalid("bad_alias", f"alias {alias!r} would read as a version number: use a name with a letter")
    lock_name(session, f"aliases of {tenant}/{name}")
    model = repository.lock(session, ready(session, tenant, f"{name}@{version}"))
    if model.status != "ready":
        raise Conflict("model_not_ready", f"model {name}@{version} is {model.status}")
    session.merge(Alias(tenant=tenant, name=name, alias=alias, model_id=model.id, updated_at=now()))
    session.flush()
    return model


def drop_alias(session: Session, tenant: str, name: str, alias: str) -> None:
    if not repository.drop_alias(session, tenant, name, alias):
        raise NotFound("alias_not_found", f"model {name[:80]!r} has no alias {alias[:80]!r}")


def set_tags(session: Session, tenant: str, reference: str, tags: dict[str, str]) -> ModelVersion:
    model = get(session, tenant, reference)
    model.tags = tags
    return model


def delete(session: Session, tenant: str, reference: str, seconds: float) -> None:
    """Marks a version as deleted; its files are removed after `seconds`, when no query can need them any more.

    Nobody sees its rules any more; they may be many, and the dispatcher removes them in chunks (`staging.sweep`).

    Raises Conflict for a bare name, whose version changes with every training, and for a version that is in use.
    """
    found = get(session, tenant, reference)
    if reference == found.name:
        versions = repository.versions(session, tenant, found.name)
        listed = ", ".join(f"{found.name}@{version}" for version in versions[:10])
        detail = f"{found.name!r} does not name one version: choose from {listed or 'none, all are deleted'}"
        raise Conflict("version_needed", detail, versions=list(versions[:10]))
    model = repository.lock(session, found)
    if model.status == "deleted":
        return
    aliases = repository.aliases(session, [model])[model.id]
    if aliases:
        names = ", ".join(repr(alias) for alias in aliases)
        raise Conflict(
            "model_has_alias", f"{model.name}@{model.version} has the alias {names}: move or remove it first"
        )
    if model.status == "pending":
        raise Conflict("model_pending", f"{model.name}@{model.version} is being trained: cancel its job first")
    model.status, model.artifact, model.artifact_bytes = "deleted", None, None
    jobs = [job.id for job in repository.trainings(session, model)]
    repository.forget_checkpoints(session, jobs)
    for owner in (model_owner(model.id), *map(checkpoint_owner, jobs)):
        remove_later(session, owner, seconds)


def rules(
    session: Session, files: KbFiles, tenant: str, reference: str, wanted: repository.RuleFilter, after: int, limit: int
) -> Sequence[RuleRow]:
    """Lists rules in order; raises Invalid for a predicate that is neither in the rules nor in the KB."""
    model = ready(session, tenant, reference)
    found, predicate = repository.rules(session, model, wanted, after, limit), wanted.predicate
    if not found and predicate is not None:
        known = set(repository.rule_predicates(session, model))
        kb = repository.kb_of(session, model)
        if kb is not None:
            known.update(KbRows.of(session, kb, graphs=False).open(files).predicates.all())
        if predicate not in known:
            raise unknown_symbol("predicate", predicate, f"model {model.name!r}", sorted(known))
    return found


def grounded(
    database: Database, files: KbFiles, tenant: str, reference: str, rule_id: str, after: int, limit: int
) -> Groundings:
    """Returns a page of the facts behind a rule, after the first `after`; those with a known head come first."""
    with database.read() as session:
        kb, rule = kb_and_rule(session, tenant, reference, rule_id)
        rows = KbRows.of(session, kb)
    stored = rows.open(files)
    premises = groundings.Premises.read(stored, rows.graphs, rule)
    search = groundings.Search(premises)
    end = after + limit
    ways: list[tuple[bool, groundings.Pairs]] = []
    # Always in the same order, so that groundings of earlier pages are found again and skipped.
    for known in (True, False):
        ways += [(known, pairs) for pairs in search.found(known, end + 1 - len(ways))]
    facts = groundings.named(stored, rule, [pairs for _, pairs in ways[after:end]])
    items = [
        GroundingOut(known=known, facts=[FactRef.model_validate(fact._asdict()) for fact in body])
        for (known, _), body in zip(ways[after:end], facts, strict=True)
    ]
    return Groundings(
        items=items, next_cursor=encode_cursor([end]) if len(ways) > end else None, truncated=search.truncated
    )


def kb_and_rule(session: Session, tenant: str, reference: str, rule_id: str) -> tuple[Kb, RuleRow]:
    """Raises NotFound without the rule, Conflict without the KB of the model."""
    model = ready(session, tenant, reference)
    rule = repository.rule(session, model, rule_id)
    if rule is None:
        why = "proofs may use rules beyond those that are listed"
        raise NotFound("rule_not_found", f"model {reference!r} lists no rule {rule_id[:80]!r}: {why}")
    kb = repository.kb_of(session, model)
    if kb is None:
        raise Conflict("kb_not_here", f"the KB of model {reference!r} is not on this service: upload it first")
    return kb, rule
