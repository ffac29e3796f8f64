"""How large the tables of all pairs of entities may become, in training and for one question."""

from ctp_core.errors import BadQuestion, ConfigError

MAX_CELLS = 1e9  # floats of the largest tables a dense model may make: 4 GB


def check_dense(cells: float, method: str, remedy: str = "use 'rules' or 'complex'") -> None:
    """Raises ConfigError where the tables of a dense method do not fit in memory."""
    if cells > MAX_CELLS:
        raise ConfigError(
            f"method {method!r} keeps tables of all pairs of entities, {cells:.1e} cells here, and {MAX_CELLS:.0e} "
            f"can be kept; {remedy}"
        )


def check_question(num_entities: int, num_predicates: int) -> None:
    """Raises BadQuestion where the KB and the question's own facts together make tables that do not fit."""
    cells = 2.0 * num_predicates * num_entities**2
    if cells > MAX_CELLS:
        raise BadQuestion(
            f"with the question's `facts` there are {num_entities:,} entities, whose tables of all pairs have "
            f"{cells:.1e} cells, and {MAX_CELLS:.0e} can be kept: name fewer new entities in `facts`"
        )
