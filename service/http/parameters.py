"""Refuses unknown query parameters, just as unknown keys of a body are refused."""

from fastapi import Depends
from fastapi.dependencies.models import Dependant
from starlette.requests import Request

from ctp_core.errors import nearest
from service.errors import Invalid
from service.http.suggestions import did_you_mean

MAX_SHOWN = 80


async def check_parameters(request: Request) -> None:
    """Raises Invalid for the first unknown parameter: a misspelt filter must not be silently ignored."""
    if not request.scope["query_string"]:
        return
    known = _names(request.scope["route"].dependant)
    unknown = next((name for name in request.query_params if name not in known), None)
    if unknown is not None:
        raise _unknown_parameter(unknown, known)


def _unknown_parameter(name: str, known: list[str]) -> Invalid:
    shown = name[:MAX_SHOWN]
    hint = did_you_mean(nearest(shown, known)) or f": this call takes {', '.join(known) or 'none'}"
    place, reason = f"query.{shown}", f"there is no such parameter{hint}"
    return Invalid("invalid_request", f"{place}: {reason}", errors=[{"place": place, "reason": reason}])


def _names(dependant: Dependant) -> list[str]:
    inner = [name for part in dependant.dependencies for name in _names(part)]
    return [*(field.alias for field in dependant.query_params), *inner]


KNOWN_PARAMETERS = Depends(check_parameters)
