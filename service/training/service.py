"""Operations on training jobs: resolve settings, submit, show, cancel."""

import math
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError
from sqlalchemy.orm import Session

from ctp_core import __version__
from ctp_core.base.config import BaseConfig
from ctp_core.ctp_graphs.config import CtpGraphsConfig
from ctp_core.errors import nearest
from ctp_core.kb.holdout import Holdout
from ctp_core.kb.knowledge_base import Kind
from ctp_core.methods import find_method, is_method, method_texts, methods_of, parse_config, preset_for, with_settings
from ctp_core.presets import DEFAULT_PRESET, PRESETS
from ctp_core.prolog_rules import parse_rule
from ctp_core.select.registry import FIXED_RULES
from service.db.engine import Database
from service.db.tables import Job, Kb, ModelVersion, Outbox
from service.errors import Conflict, Invalid, NotFound, TooMany
from service.facts.files import KbFiles
from service.http.bodies import invalid
from service.http.suggestions import did_you_mean
from service.kbs import repository as kbs_repository
from service.kbs import service as kbs
from service.names import check_name, new_id
from service.room import check_room
from service.settings import Settings
from service.training import capacity, outcomes, repository
from service.training.schemas import ChildOut, JobOut, TrainRequest


def resolve_config(kb: Kb, preset: str | None, overrides: dict[str, Any]) -> BaseConfig:
    """Returns the preset's settings for the method, with the user's settings on top; raises Invalid."""
    overrides = _by_select(overrides)
    profile = kbs.profile_of(kb)
    if preset is not None and preset not in PRESETS:
        raise Invalid("unknown_preset", f"preset {preset!r} is not known: choose from {', '.join(PRESETS)}")
    base = preset_for(profile, preset or DEFAULT_PRESET, overrides.get("method"), overrides.get("select"))
    method = overrides.get("method", base.method)
    if not isinstance(method, str) or not is_method(method):
        raise _no_such_method("config.method", str(method), profile.kind)
    config_class = find_method(profile.kind, method).config
    _check_settings(overrides, method, profile.kind, base)
    given = {**overrides, "method": method}
    try:
        return parse_config(profile.kind, with_settings(base, given) if method == base.method else given)
    except ValidationError as error:
        raise invalid(error, config_class, "config") from None


def preset_configs(kb: Kb, method: str | None) -> dict[str, BaseConfig]:
    """Returns preset name -> its settings for a KB, and for one method if it is named."""
    profile = kbs.profile_of(kb)
    if method is not None and not is_method(method):
        raise _no_such_method("query.method", method, profile.kind)
    asked = {} if method is None else {"method": method}
    return {name: resolve_config(kb, name, asked) for name in PRESETS}


def setting_texts(config: BaseConfig) -> dict[str, str]:
    """Returns what each setting means; those of a hybrid's parts are named `part.setting`."""
    texts = {name: field.description for name, field in type(config).model_fields.items() if field.description}
    for part, value in config:
        if isinstance(value, BaseConfig):
            texts |= {f"{part}.{name}": text for name, text in setting_texts(value).items()}
    return texts


def _no_such_method(place: str, method: str, kind: Kind) -> Invalid:
    known = list(method_texts(kind))
    near, choice = did_you_mean(nearest(method[:80], known)), ", ".join(known)
    return Invalid("invalid_request", f"{place}: there is no such method{near}: choose from {choice}")


def _by_select(overrides: dict[str, Any]) -> dict[str, Any]:
    """Replaces a method that is really a `select` of `ctp` by `ctp` with that `select`."""
    name = overrides.get("method")
    if not isinstance(name, str) or name not in FIXED_RULES:
        return overrides
    if overrides.get("select", name) != name:
        raise Invalid("invalid_request", f"config.select: method {name!r} is `ctp` with select {name!r}: leave it out")
    return {**overrides, "method": "ctp", "select": name}


def _check_settings(overrides: dict[str, Any], method: str, kind: Kind, base: BaseConfig) -> None:
    """Raises Invalid at settings that only other methods have: whoever gives them forgot to name one of these, or the
    part of `base` that has them."""
    faults, known = [], {other: found.config.model_fields for other, found in methods_of(kind).items()}
    for name in overrides:
        others = [other for other in known if name in known[other]]
        if others and name not in known[method]:
            parts = _parts_with(name, base) if method == base.method else []
            remedy = f"use {' or '.join(parts)}" if parts else "set `method` to one of these, or leave the setting out"
            reason = f"method {method!r} has no such setting, only {', '.join(others)}: {remedy}"
            faults.append({"place": f"config.{name}", "reason": reason})
    if faults:
        detail = "; ".join(f"{fault['place']}: {fault['reason']}" for fault in faults)
        raise Invalid("invalid_request", detail, errors=faults)


def _parts_with(name: str, config: BaseConfig) -> list[str]:
    """Returns the places of a setting in the parts of a hybrid, as `config.part.setting`."""
    parts = {place: part for place, part in config if isinstance(part, BaseConfig)}
    return [f"config.{place}.{name}" for place, part in parts.items() if name in type(part).model_fields]


def check(database: Database, files: KbFiles, tenant: str, request: TrainRequest) -> None:
    """Checks what only the files of the KB tell, before a transaction is begun; without the KB, `submit` will say so.

    Raises Invalid where fixed rules have a predicate that the KB does not have: their training would fail later.
    """
    kbs.count(database, files, tenant, request.kb)
    with database.read() as session:
        kb = kbs_repository.find(session, tenant, request.kb)
        config = None if kb is None else resolve_config(kb, request.preset, request.config)
        if kb is None or not isinstance(config, CtpGraphsConfig) or not config.rules:
            return
        key = kbs_repository.artifact_of(session, kb)
    stored = files.open(key, kb.name, kb.kind)
    for rule in map(parse_rule, config.rules):
        kbs.check_predicates(stored, (rule.predicate, *rule.body.predicates), "config.rules")


def _check_holdout(kb: Kb, holdout: Holdout | None) -> None:
    """Raises Invalid where the KB has such a split, DataError where it has too little to hold any out."""
    if holdout is None:
        return
    taken = [split for split in holdout.shares if split in kb.splits]
    if taken:
        detail = f"{kb.name!r} has a split {taken[0]!r} already: leave it out of `holdout`"
        raise Invalid("split_exists", detail, splits=list(kb.splits))
    holdout.sizes(kb.splits["train"])


def check_queue(session: Session, tenant: str, number: int, settings: Settings) -> None:
    """Raises TooMany if so many more jobs of a tenant may not be queued."""
    queued = repository.num_queued(session, tenant)
    if queued + number > settings.max_queued_jobs:
        detail = (
            f"{queued} of at most {settings.max_queued_jobs} jobs are queued (CTP_MAX_QUEUED_JOBS): wait, or cancel one"
        )
        raise TooMany("too_many_queued_jobs", detail)


def submit(session: Session, tenant: str, request: TrainRequest, settings: Settings) -> tuple[Job, ModelVersion]:
    """Writes the model, its jobs and their outbox rows; with several seeds, one child job per seed.

    Raises TooMany if too many jobs are queued, and IntegrityError if another call takes the same version number at the
    same time: try again.
    """
    seeds = request.seeds if request.seeds is not None else [None]
    check_queue(session, tenant, len(seeds), settings)
    check_room(session, tenant, 0, settings)
    kb = kbs.held(session, tenant, request.kb)
    name = check_name(request.name or kb.name)
    configs = [resolve_config(kb, request.preset, _with_seed(request.config, seed)) for seed in seeds]
    _check_holdout(kb, request.holdout)
    profile = kbs.profile_of(kb)
    expected = [capacity.forecast(session, config, profile) for config in configs]
    capacity.check_fits(session, configs[0], expected[0])
    values = [config.model_dump(mode="json") for config in configs]
    model = _add_model(session, tenant, name, request, kb, configs[0])
    whole = capacity.shown(capacity.together(expected))
    job = _add_job(session, model, values[0], request.priority, forecast=whole, has_children=len(seeds) > 1)
    jobs = [job]
    if job.has_children:
        children = [{"forecast": capacity.shown(one), "position": place} for place, one in enumerate(expected)]
        jobs = [
            _add_job(session, model, config, request.priority, parent_id=job.id, **more)
            for config, more in zip(values, children, strict=True)
        ]
    session.add_all(Outbox(job_id=row.id, priority=row.priority) for row in jobs)
    session.flush()
    return job, model


def _with_seed(config: dict[str, Any], seed: int | None) -> dict[str, Any]:
    if seed is None:
        return config
    if config.get("seed", seed) != seed:
        raise Invalid("two_seeds", "send either `seeds`, or `seed` in `config`, not both")
    return {**config, "seed": seed}


def _add_model(
    session: Session, tenant: str, name: str, request: TrainRequest, kb: Kb, config: BaseConfig
) -> ModelVersion:
    model = ModelVersion(
        id=new_id("model"),
        tenant=tenant,
        name=name,
        version=repository.next_version(session, tenant, name),
        status="pending",
        kb_id=kb.id,
        kb_sha256=kb.sha256,
        kind=kb.kind,
        method=config.method,
        preset=request.preset or DEFAULT_PRESET,
        config=config.model_dump(mode="json"),
        metrics={},
        holdout=None if request.holdout is None else request.holdout.shares,
        tags=dict(request.tags),
        code_version=__version__,
    )
    session.add(model)
    session.flush()
    return model


def _add_job(session: Session, model: ModelVersion, config: dict[str, Any], priority: int, **values: Any) -> Job:
    job = Job(
        id=new_id("job"),
        tenant=model.tenant,
        model_id=model.id,
        kb_id=model.kb_id,
        config=config,
        status="queued",
        priority=priority,
        progress={},
        **values,
    )
    session.add(job)
    session.flush()
    session.refresh(job)
    return job


def get(session: Session, tenant: str, job_id: str) -> Job:
    job = repository.find(session, tenant, job_id)
    if job is None:
        raise NotFound("job_not_found", f"there is no job {job_id[:80]!r}: GET /jobs lists your jobs")
    return job


def look_up(session: Session, tenant: str, job_id: str) -> JobOut:
    return shown(session, [get(session, tenant, job_id)])[0]


def cancel(database: Database, tenant: str, job_id: str, lease_seconds: float) -> JobOut:
    """Cancels a queued or running job at once; its worker stops within seconds. Raises Conflict if it has ended."""
    with database.write() as session:
        job = get(session, tenant, job_id)
        if not outcomes.cancel(session, job, lease_seconds):
            raise Conflict("job_finished", f"job {job_id!r} has already ended: it is {job.status}")
        session.refresh(job)
        return shown(session, [job])[0]


def shown(session: Session, jobs: Sequence[Job]) -> list[JobOut]:
    children = repository.children(session, [job for job in jobs if job.has_children])
    models = repository.model_references(session, jobs)
    return [_shown(job, models[job.model_id], children.get(job.id, [])) for job in jobs]


def _shown(job: Job, model: str, children: Sequence[Job]) -> JobOut:
    if not children:
        return JobOut.model_validate({**_values(job), "model": model})
    seeds = [ChildOut.model_validate(_values(child)) for child in children]
    together = {
        "progress": _summed([child.progress for child in children]),
        "waiting_for": next((child.waiting_for for child in seeds if child.waiting_for), None),
        "children": seeds,
        "seed": None,
    }
    return JobOut.model_validate({**vars(job), "model": model, **together})


def _values(job: Job) -> dict[str, Any]:
    """Returns the shown values of a job; `waiting_for` is shown only while the job runs."""
    waiting_for = job.waiting_for if job.status == "running" else None
    return {**vars(job), "seed": job.config.get("seed"), "waiting_for": waiting_for}


def _summed(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sums the epochs of all seeds and the work that is done; the rest is from the last that has begun."""
    known = [part for part in parts if part]
    if not known:
        return {}
    together = {
        "epoch": sum(part["epoch"] for part in known),
        "epochs": known[-1]["epochs"] * len(parts),
        "done": round(sum(part.get("done") or 0.0 for part in known) / len(parts), 4),
        "eta_seconds": _time_left(known, len(parts) - len(known)),
    }
    return known[-1] | together


def _time_left(known: Sequence[dict[str, Any]], waiting: int) -> float | None:
    """Returns the time that the slowest seed needs, and then the waiting ones, as many at a time as run now."""
    running = [part for part in known if part.get("eta_seconds")]
    if not running:
        return None if waiting or any(part.get("done", 1.0) < 1.0 for part in known) else 0.0
    slowest = max(part["eta_seconds"] for part in running)
    each = max(part["eta_seconds"] + part.get("elapsed_seconds", 0.0) for part in running)
    return round(float(slowest + each * math.ceil(waiting / len(running))), 1)
