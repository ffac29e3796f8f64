"""The part of a query that asks a logical question: several atoms and variables at once."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, WithJsonSchema

from service.settings import ATOMS_LIMIT, NAME_LIMIT

Name = Annotated[str, Field(min_length=1, max_length=NAME_LIMIT)]
VariableName = Annotated[str, Field(min_length=2, max_length=64)]
_ATOM = {
    "anyOf": [
        {"type": "string", "description": "Text, such as `treats(?d, asthma)`, `not …`, or several with commas."},
        {
            "type": "object",
            "description": "`{subject, predicate, object}`, `{not: atom}`, `{or: [[atoms], [atoms]]}`.",
        },
    ]
}
# Read by ctp_core.logic.syntax, whose errors point at the character.
Formula = Annotated[Any, WithJsonSchema(_ATOM)]


class LogicalFields(BaseModel):
    """What `where` needs beside the model."""

    where: list[Formula] | None = Field(
        None,
        min_length=1,
        max_length=ATOMS_LIMIT,
        description="Atoms that must all hold, each as text such as `treats(?d, asthma)` or as an object; instead of "
        "`goal` and `goals`.",
    )
    select: list[VariableName] | None = Field(
        None,
        max_length=2 * ATOMS_LIMIT,
        description="Variables to list, such as `?d`; default: all that an atom binds. Others may stand for anything.",
    )
    distinct: bool = Field(True, description="List each binding of the selected variables once, with its best score.")
    tnorm: Literal["product", "min", "lukasiewicz"] = Field(
        "product", description="How the scores of the atoms make the score of an answer; `or` takes its dual."
    )
    types: dict[VariableName, Name] = Field(
        default_factory=dict,
        max_length=2 * ATOMS_LIMIT,
        description='Types of variables, such as {"?d": "Drug"}: only entities that the KB states to be of the type.',
    )
    type_predicate: Name | None = Field(
        None, description="The predicate that states types; default: RDF's `a`, or one named `type`, `is_a` or alike."
    )
    without: list[tuple[Name, Name, Name]] = Field(
        default_factory=list,
        description="Facts to leave out, for this query only, as if nobody had stated them. Scores that do not come "
        "from facts, such as those of embeddings, stay as they are.",
    )
    explain: bool = Field(False, description="Show the plan of a logical question: in which order atoms are checked.")


EXAMPLE_WHERE: dict[str, Any] = {
    "model": "family",
    "where": ["grandparent(rick, ?x)", "not sister(?x, morty)"],
    "select": ["?x"],
    "top_k": 3,
}
