"""Turns `where` into a question for a worker, read and checked before it is sent."""

from typing import Any

from ctp_core.logic.question import LogicalQuestion, check, selected, variable_named
from ctp_core.logic.syntax import read_where
from service.errors import PayloadTooLarge
from service.http.pieces import too_many_facts
from service.queries.explain_schemas import ExplainRequest
from service.queries.logical_schemas import LogicalFields
from service.settings import Settings


def logical_question(request: LogicalFields, shared: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The question as it travels; raises BadQuery or PayloadTooLarge.

    Every formula travels as text, which is read again where it is answered.
    """
    where = read_where(request.where or [], settings.max_atoms, "CTP_MAX_ATOMS")
    types = {variable_named(name, "types"): type_ for name, type_ in request.types.items()}
    question = LogicalQuestion(where, selected(where, request.select), types=types, tnorm=request.tnorm)
    check(question, settings.max_atoms)
    num_atoms = len(question.atoms)
    _check_results(num_atoms, shared["top_k"], shared["proofs"], settings)
    return {
        **shared,
        "where": [str(formula) for formula in where],
        "num_atoms": num_atoms,
        "select": [str(variable) for variable in question.select],
        "distinct": request.distinct,
        "tnorm": request.tnorm,
        "types": request.types,
        "type_predicate": request.type_predicate,
        "explain": request.explain,
    }


def explain_question(request: ExplainRequest, settings: Settings) -> dict[str, Any]:
    """The fact to explain, as it travels; raises PayloadTooLarge."""
    if len(request.facts) + len(request.without) > settings.max_query_facts:
        raise too_many_facts(settings.max_query_facts)
    fact = request.fact
    options = request.model_dump(include={"threshold", "proofs", "near_misses", "facts", "without"})
    return {**options, "explained": [fact.subject, fact.predicate, fact.object], "top_k": 1}


def _check_results(num_atoms: int, top_k: int, proofs: int, settings: Settings) -> None:
    results = num_atoms * top_k * (1 + proofs)
    if results > settings.max_query_results:
        raise PayloadTooLarge(
            "too_many_results",
            f"atoms x top_k x (1 + proofs) is {results}, more than {settings.max_query_results} "
            "(CTP_MAX_QUERY_RESULTS): ask for less at once",
        )
