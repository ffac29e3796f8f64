"""How large the tables of all pairs of entities may become, in training and for one question."""

from ctp_core.errors import BadQuestion, ConfigError

MAX_EDGES = 5e7  # soft edges: 3 GB, and as much again while they are made
MAX_CELLS = 1e9  # floats of the largest tables a dense model may make: 4 GB
SUMS = 16  # floats that a step by sums over all proofs keeps for each cell of a table of all predicates


def fits_tables(num_entities: int, num_predicates: int) -> bool:
    """Whether there is room for a table of all pairs of entities for each predicate."""
    return float(num_predicates) * num_entities**2 <= MAX_CELLS


def check_dense(cells: float, method: str, remedy: str = "use 'rules' or 'complex'") -> None:
    """Raises ConfigError where the tables of a dense method do not fit in memory."""
    if cells > MAX_CELLS:
        raise ConfigError(
            f"method {method!r} keeps tables of all pairs of entities, {cells:.1e} cells here, and {MAX_CELLS:.0e} "
            f"can be kept; {remedy}"
        )


def check_edges(num_facts: int, nearest: int) -> None:
    """Raises ConfigError where facts between all that may be taken for their entities do not fit in memory."""
    if num_facts * nearest**2 > MAX_EDGES:
        raise ConfigError(
            f"{num_facts:,} facts with `nearest` {nearest} make up to {num_facts * nearest**2:.1e} edges, and "
            f"{MAX_EDGES:.0e} can be kept: lower `nearest`"
        )


def check_question(num_entities: int, num_tables: int) -> None:
    """Raises BadQuestion where the KB and the question's own facts together make tables that do not fit."""
    cells = float(num_tables) * num_entities**2
    if cells > MAX_CELLS:
        raise BadQuestion(
            f"with the question's `facts` there are {num_entities:,} entities, whose tables of all pairs have "
            f"{cells:.1e} cells, and {MAX_CELLS:.0e} can be kept: name fewer new entities in `facts`"
        )
