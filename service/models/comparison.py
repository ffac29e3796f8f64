"""Compares versions: their settings, metrics and rules, and their answers to the same questions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any, cast

from pydantic import ValidationError
from sqlalchemy.orm import Session

from ctp_core.errors import ConfigError
from ctp_core.kb.knowledge_base import Kind
from ctp_core.methods import stored_config
from service.db.engine import Database
from service.db.tables import ModelVersion
from service.errors import Invalid
from service.facts.files import KbFiles
from service.http.places import Places
from service.models import contest, repository, service
from service.models.contest import Asking, Prepared
from service.models.repository import ToldRule
from service.models.schemas import Comparison, Difference, SharedRule
from service.queries.batcher import Target

MAX_MODELS = 10
MAX_ASKED = 2000  # models x questions; a query may have 256 goals
MAX_RULES_SHOWN = 200
THREADS = 2


@dataclass(frozen=True)
class Compared:
    """The comparison so far, from the database, and the questions that are still to be asked."""

    comparison: Comparison
    prepared: Prepared
    targets: list[Target]


def comparing(limit: int) -> Places:
    """The comparisons that one tenant may have under way in one API process."""
    detail = f"{limit} comparisons of yours are under way (CTP_MAX_COMPARISONS): wait for one to end"
    return Places(limit, THREADS, "too_many_comparisons", detail)


def prepare(database: Database, files: KbFiles, tenant: str, references: Sequence[str], num_questions: int) -> Compared:
    if not 2 <= len(references) <= MAX_MODELS:
        raise Invalid("bad_comparison", f"name 2 to {MAX_MODELS} models in `ids`, separated by commas")
    if len(references) * num_questions > MAX_ASKED:
        most = MAX_ASKED // len(references)
        raise Invalid("too_many_questions", f"at most {most} `questions` may be asked of {len(references)} models")
    with database.read() as session:
        models = [service.ready(session, tenant, reference) for reference in references]
        targets = [Target(tenant, model.id, model.artifact or "") for model in models]
        comparison, subject = compare(session, models), contest.subject(session, models, num_questions)
    return Compared(comparison, contest.prepare(files, subject, num_questions), targets)


async def contested(compared: Compared, asking: Asking, num_shown: int) -> Comparison:
    """Returns the comparison with its contest; a note says why there is none, or why it is not complete."""
    asked = compared.prepared
    if not asked.questions:
        return compared.comparison.model_copy(update={"note": asked.note})
    held, note = await contest.hold(asked, compared.targets, asking, num_shown)
    return compared.comparison.model_copy(update={"contest": held, "note": note})


def compare(session: Session, models: Sequence[ModelVersion]) -> Comparison:
    rules = [repository.told_rules(session, model) for model in models]
    shared = set(rules[0]).intersection(*rules[1:])
    return Comparison(
        models=service.shown(session, models),
        config=differences([_settings(model) for model in models]),
        metrics=differences([model.metrics for model in models], only_unequal=False),
        num_rules=[len(known) for known in rules],
        num_shared_rules=len(shared),
        rules=_side_by_side(rules),
    )


def _settings(model: ModelVersion) -> dict[str, Any]:
    """Those of a hybrid's parts by the name of the part."""
    found: dict[str, Any] = {}
    for name, value in _known_settings(model).items():
        if isinstance(value, dict) and "method" in value:
            found |= {f"{name}.{inner}": setting for inner, setting in value.items()}
        else:
            found[name] = value
    return found


def _known_settings(model: ModelVersion) -> dict[str, Any]:
    """Returns the settings, with defaults for those that are newer than the model."""
    try:
        return stored_config(cast(Kind, model.kind), model.config).model_dump(mode="json")
    except (ConfigError, ValidationError):  # a method or a setting that there no longer is
        return model.config


def differences(values: Sequence[Mapping[str, Any]], only_unequal: bool = True) -> list[Difference]:
    """Lists values by name, in the order of first occurrence; None for a version that does not have the value."""
    names = dict.fromkeys(name for part in values for name in part)
    rows = [Difference(name=name, values=[part.get(name) for part in values]) for name in names]
    return [row for row in rows if not only_unequal or any(value != row.values[0] for value in row.values)]


def _side_by_side(rules: Sequence[Mapping[str, ToldRule]]) -> list[SharedRule]:
    """Lists the rules in which any version has most confidence."""
    surest: dict[str, ToldRule] = {}
    for known in rules:
        surest |= {i: rule for i, rule in known.items() if i not in surest or rule.confidence > surest[i].confidence}
    shown = nsmallest(MAX_RULES_SHOWN, surest.items(), key=lambda one: (-one[1].confidence, one[1].text))
    return [
        SharedRule(
            id=rule_id,
            text=rule.text,
            confidences=[known[rule_id].confidence if rule_id in known else None for known in rules],
        )
        for rule_id, rule in shown
    ]
