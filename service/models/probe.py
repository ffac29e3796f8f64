"""Checks that an imported model really loads, in a query worker, since the API has no torch."""

from service.errors import Invalid, Unavailable
from service.queries.batcher import Batcher, Target

# Any answer will do, even that the name is unknown: the model was loaded to tell.
QUESTION = {
    "goal": ["ctp:probe", "ctp:probe", "ctp:probe"],
    "facts": [],
    "top_k": 1,
    "proofs": 0,
    "depth": None,
    "exclude_known": False,
}


async def check_loads(batcher: Batcher, model_id: str, artifact: str) -> None:
    """Raises Invalid if the files are not a model, Unavailable if this cannot be checked now."""
    (reply,) = await batcher.ask(Target(model_id, artifact), [QUESTION], "")
    problem = reply if isinstance(reply, dict) else {}
    if problem.get("status") == Unavailable.status:
        raise Unavailable(problem["code"], problem["detail"])
    if problem.get("status", 0) >= 500 or problem.get("code") == "bad_artifact":
        raise Invalid("bad_archive", f"the archive cannot be imported: {problem.get('detail', 'it does not load')}")
