"""What the registry says of names, seeds and rules that are not there, on a database of its own."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from ctp_core.evidence.rules import chain_rule
from ctp_core.rules import UNARY, Body, Rule, Step, Template
from service.db.engine import Database
from service.db.tables import ModelVersion, RuleRow
from service.errors import Conflict, NotFound, ServiceError, Unavailable
from service.models import repository, service
from service.models.comparison import MAX_RULES_SHOWN, compare
from service.models.staging import staged
from service.training.outcomes import add_rules, rule_values
from tests.stores import files_of

TENANT = "default"
RULE = Rule("p", Body((Step("q"),)), 0.5)
LINEAGE: dict[str, Any] = {"kb_sha256": "0" * 64, "code_version": "1", "config": {}, "metrics": {}, "tags": {}}


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    """With two ready versions of `m`, imported from a service that had their KB."""
    with sqlite_database.write() as session:
        for version in (1, 2):
            names = {"id": f"model_{version}", "tenant": TENANT, "name": "m", "version": version}
            session.add(ModelVersion(**names, **LINEAGE, status="ready", kind="facts", method="rules", artifact="x"))
            session.flush()
            add_rules(session, f"model_{version}", rule_values([RULE]))
    return sqlite_database


def test_an_import_that_was_taken_for_abandoned_is_to_be_sent_again(database: Database) -> None:
    with database.read() as session, pytest.raises(Unavailable) as caught:
        staged(session, "model_of_nobody")
    assert caught.value.code == "import_lost"


def test_rules_in_the_result_of_a_job_of_an_earlier_version_are_added(database: Database) -> None:
    [early] = rule_values([RULE])
    del early["weight"], early["approximate"]
    with database.write() as session:
        session.execute(delete(RuleRow).where(RuleRow.model_id == "model_1"))
        add_rules(session, "model_1", [early])
    with database.read() as session:
        [rule] = service.rules(session, files_of(database), TENANT, "m@1", repository.RuleFilter(), -1, 10)
        assert (rule.text, rule.weight, rule.approximate) == (RULE.text, None, False)


def test_rules_are_listed_by_counts_and_kind(database: Database) -> None:
    """A rule that was never counted is not filtered by counts."""
    chain, prior = Body((Step("q"),)), Body((Step("q"),), "X")
    rules = {
        "counted": Rule("p", chain, 0.5, support=3, precision=0.6, weight=1.5),
        "for nothing": Rule("p", Body((Step("r"),)), 0.0, support=0, precision=0.0),
        "uncounted": Rule("p", Body((Step("s"),)), 0.9),
        "prior": Rule("p", prior, 0.5, support=9, precision=0.1),
        "constant": Rule("p", Body((Step("q"),), "X", "d"), 0.5, "c", 4, 0.8),
    }
    names = {rule.text: name for name, rule in rules.items()}

    def listed(**wanted: Any) -> list[str]:
        with database.read() as session:
            found = service.rules(session, files_of(database), TENANT, "m@1", repository.RuleFilter(**wanted), -1, 10)
        return [names[rule.text] for rule in found]

    with database.write() as session:
        session.execute(delete(RuleRow).where(RuleRow.model_id == "model_1"))
        add_rules(session, "model_1", rule_values(rules.values()))
    assert listed() == list(rules)
    assert listed(min_support=1, constants=False, priors=False) == ["counted", "uncounted"]
    assert listed(min_support=4) == ["uncounted", "prior", "constant"]
    assert listed(min_precision=0.7) == ["uncounted", "constant"]
    assert listed(min_confidence=0.6) == ["uncounted"]
    with database.read() as session:
        assert service.rules(session, files_of(database), TENANT, "m@1", repository.ALL_RULES, -1, 1)[0].weight == 1.5


def seed_of_an_import(session: Session) -> None:
    service.training_of(session, service.get(session, TENANT, "m@1"), 7)


def half_a_reference(session: Session) -> None:
    service.delete(session, TENANT, "m@", 0.0)


def unknown_rule(session: Session) -> None:
    service.kb_and_rule(session, TENANT, "m", "no-such-rule")


def kb_elsewhere(session: Session) -> None:
    service.kb_and_rule(session, TENANT, "m", RULE.id)


@pytest.mark.parametrize(
    ("call", "error", "code"),
    [
        (half_a_reference, NotFound, "model_not_found"),
        (seed_of_an_import, NotFound, "seed_not_found"),
        (unknown_rule, NotFound, "rule_not_found"),
        (kb_elsewhere, Conflict, "kb_not_here"),
    ],
)
def test_what_is_not_there_is_told_by_its_code(
    database: Database, call: Callable[[Session], None], error: type[ServiceError], code: str
) -> None:
    with pytest.raises(error) as caught, database.write() as session:
        call(session)
    assert caught.value.code == code
    with database.read() as session:
        assert [model.status for model in repository.listing(session, TENANT, "m", None, None, 10)] == ["ready"] * 2


@pytest.mark.slow
def test_many_rules_are_compared_in_little_memory(database: Database) -> None:
    count = 5000
    many = [Rule("p", Body((Step(f"q{i}"),)), i / (2 * count)) for i in range(count)]
    with database.write() as session:
        for number in (1, 2):
            session.execute(delete(RuleRow).where(RuleRow.model_id == f"model_{number}"))
            add_rules(session, f"model_{number}", rule_values([RULE, *many][number - 1 :]))
    with database.read() as session:
        models = session.scalars(select(ModelVersion).order_by(ModelVersion.version)).all()
        tracemalloc.start()
        try:
            found = compare(session, models)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (found.num_rules, found.num_shared_rules) == ([count + 1, count], count)
    assert [(rule.text, rule.confidences) for rule in found.rules[:2]] == [
        (RULE.text, [0.5, None]),
        (many[-1].text, [many[-1].confidence] * 2),
    ]
    assert len(found.rules) == MAX_RULES_SHOWN
    assert peak < 1024 * 2 * count


def test_versions_of_different_methods_share_the_rules_that_are_the_same(database: Database) -> None:
    """`ctp` writes predicates by a template, `proofs` and `rules` the atoms that a path walks along."""
    names = ("a", "b", "c", "p")
    proved = [
        Rule("p", Body.of(Template(3), names[:3]), 0.9),
        Rule("p", Body.of(Template(2, reversed=True), names[:2]), 0.8),
        Rule("p", Body.of(Template(1), names[:1]), 0.7),
    ]
    walks = (((0, 1, 2), Template(3)), ((1 + 4, 0 + 4), Template(2)), ((0, 1 + 4), Template(2)), ((2,), UNARY[0]))
    walked = [replace(chain_rule(names, 3, template, atoms, 1.0), confidence=0.5) for atoms, template in walks]
    with database.write() as session:
        for number, rules in enumerate((proved, walked), 1):
            session.execute(delete(RuleRow).where(RuleRow.model_id == f"model_{number}"))
            add_rules(session, f"model_{number}", rule_values(rules))
    with database.read() as session:
        found = compare(session, session.scalars(select(ModelVersion).order_by(ModelVersion.version)).all())
    assert (found.num_rules, found.num_shared_rules) == ([3, 4], 2)
    shared = {rule.text: rule.confidences for rule in found.rules if None not in rule.confidences}
    assert shared == {
        "p(X,Y) :- a(X,Z), b(Z,Z2), c(Z2,Y)": [0.9, 0.5],
        "p(X,Y) :- b(Z,X), a(Y,Z)": [0.8, 0.5],
    }
