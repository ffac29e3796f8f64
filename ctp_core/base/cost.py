"""What a training will cost, and how large tables of all pairs of entities may become.

Work is counted in units that do not depend on the machine. Its seconds are those of one core of the machine that the
constants were measured on; what a training does never depends on them.
"""

import math
from dataclasses import dataclass

from ctp_core.base.config import GraphsConfig
from ctp_core.errors import BadQuestion, ConfigError

MAX_EDGES = 5e7  # soft edges: 3 GB, and as much again while they are made
MAX_TRIED_BYTES = 2_500_000_000  # of settings that a preset tries
MAX_CELLS = 1e9  # floats of the largest tables a dense model may make: 4 GB
SUMS = 16  # floats that a step by sums over all proofs keeps for each cell of a table of all predicates


# Seconds of the reference core for one unit of work.
PRODUCT_SECONDS = 2.5e-11  # a multiplication with its addition, in a product of large tables
CELL_SECONDS = 1.0e-9  # a number that is read, changed and written
CALL_SECONDS = 1.0e-5  # a call of torch or numpy, whatever its size
START_SECONDS = 2.0  # reading the KB, loading the parts of torch that come late, storing the model
PROCESS_BYTES = 400e6  # the loaded program
FACT_BYTES = 200.0  # a training fact and the indexes of it, before a method keeps anything of its own
FLOAT = 4.0  # bytes of a number


@dataclass(frozen=True)
class Work:
    """Units of work; they add up, and multiply by how often something is done."""

    products: float = 0.0
    cells: float = 0.0
    calls: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(self.products + other.products, self.cells + other.cells, self.calls + other.calls)

    def __mul__(self, times: float) -> "Work":
        return Work(self.products * times, self.cells * times, self.calls * times)

    @property
    def seconds(self) -> float:
        return self.products * PRODUCT_SECONDS + self.cells * CELL_SECONDS + self.calls * CALL_SECONDS


@dataclass(frozen=True)
class Forecast:
    """What a training will cost, before it is paid; `basis` says in a sentence what the figures rest on."""

    cpu_seconds: float
    peak_bytes: int
    basis: str

    def fits(self, seconds: float) -> bool:
        """Whether settings of this cost may be tried with so many seconds."""
        return self.cpu_seconds <= seconds and self.peak_bytes <= MAX_TRIED_BYTES


def forecast_of(work: Work, num_bytes: float, num_facts: int, basis: str) -> Forecast:
    """The forecast of a training that does this work and holds these bytes beside the program and the KB."""
    peak = PROCESS_BYTES + FACT_BYTES * num_facts + num_bytes
    return Forecast(START_SECONDS + work.seconds, int(peak), basis)


MIN_EPOCHS = 15  # whatever the number of steps: a graph seen less often than this has taught nothing yet


def enough_epochs(config: GraphsConfig, num_graphs: int) -> int:
    """The epochs of the config, or fewer where they make more steps than are enough."""
    if config.steps is None:
        return config.epochs
    return min(config.epochs, max(MIN_EPOCHS, math.ceil(config.steps / _steps_per_epoch(config, num_graphs))))


def num_steps(config: GraphsConfig, num_graphs: int) -> int:
    """The steps of a training on so many graphs."""
    return enough_epochs(config, num_graphs) * _steps_per_epoch(config, num_graphs)


def _steps_per_epoch(config: GraphsConfig, num_graphs: int) -> int:
    return math.ceil(num_graphs / config.batch_size)


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
