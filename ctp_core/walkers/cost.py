"""What training a walker costs: tables of all pairs of entities, multiplied along every step of a walk."""

import math

from ctp_core.base.cost import FLOAT, Forecast, Work, forecast_of
from ctp_core.kb.profile import Profile
from ctp_core.walkers.config import MinervaConfig, NeuralLpConfig, WalkerConfig

PASSES = 3  # of each product: forwards, and two backwards
STEP_CALLS = 400.0
WALKS_KEPT, PER_WALK = 200, 400.0  # while rules are read off the attention, in plain Python


def forecast(config: WalkerConfig, profile: Profile) -> Forecast:
    return _neurallp(config, profile) if isinstance(config, NeuralLpConfig) else _minerva(config, profile)


def step_cells(config: WalkerConfig, num_entities: int, num_predicates: int) -> float:
    """Numbers in the tables of one learning step."""
    sizes = (num_entities, num_predicates)
    return _neurallp_cells(config, *sizes) if isinstance(config, NeuralLpConfig) else _minerva_cells(config, *sizes)


def _neurallp_cells(config: NeuralLpConfig, num_entities: int, num_predicates: int) -> float:
    """Numbers in memory in a learning step: the facts as tables, twice, and what each walk reaches after each step."""
    pairs = float(num_entities) ** 2
    rows = min(config.batch_size, num_predicates) * config.rank
    return pairs * (4 * num_predicates + rows * 5 * (config.length + 1))


def _neurallp(config: NeuralLpConfig, profile: Profile) -> Forecast:
    entities, predicates = profile.num_entities, profile.num_predicates
    asked, pairs = profile.used_predicates or predicates, float(entities) ** 2
    steps = math.ceil(asked / config.batch_size)
    # A row is a predicate and a rank. Its operator is a sum of all tables; the tables themselves need no gradient.
    row = Work(products=2 * predicates * pairs * 2 + PASSES * pairs * entities, cells=12 * pairs) * config.length
    step = Work(cells=6 * predicates * pairs, calls=STEP_CALLS)
    epoch = row * (asked * config.rank) + step * steps + Work(cells=20 * pairs) * asked
    validations = 2 + config.epochs / config.eval_every
    answered = (row * (config.rank / PASSES) + Work(cells=20 * pairs)) * asked
    decoded = Work(cells=PER_WALK) * (asked * config.rank * config.length * WALKS_KEPT * 2 * predicates)
    work = epoch * config.epochs + answered * validations + decoded
    # Validation keeps its own tables, and the chances of all pairs in double precision.
    held = _neurallp_cells(config, entities, predicates) + pairs * (2 * predicates + 2 * asked)
    return forecast_of(work, FLOAT * held, profile.num_facts, _basis(config.epochs, asked, entities))


def _minerva_cells(config: MinervaConfig, num_entities: int, num_predicates: int) -> float:
    """Numbers in memory in a learning step: the facts as tables, and what each sequence of each question reaches."""
    pairs, tables = float(num_entities) ** 2, 2 * num_predicates + 1
    questions = min(config.batch_size, 2 * num_predicates)
    followed = sum(_sequences(config, tables))
    return pairs * (tables + questions * (tables + 4.0 * followed))


def _minerva(config: MinervaConfig, profile: Profile) -> Forecast:
    entities, predicates = profile.num_entities, profile.num_predicates
    asked, pairs, tables = profile.used_predicates or predicates, float(entities) ** 2, 2 * predicates + 1
    walk = Work(cells=4 * tables * pairs, calls=STEP_CALLS)
    for step, sequences in enumerate(_sequences(config, tables)):
        mixed = 2 * tables * pairs if step == config.length - 1 else 0.0  # the last step mixes all tables
        walk += Work(products=PASSES * pairs * entities + mixed, cells=16 * pairs) * sequences
    validations = 2 + config.epochs / config.eval_every
    work = walk * (2 * asked * config.epochs) + walk * (2 * asked * validations / PASSES)
    held = _minerva_cells(config, entities, predicates) + pairs * (tables + 2 * asked)
    return forecast_of(work, FLOAT * held, profile.num_facts, _basis(config.epochs, 2 * asked, entities))


def _sequences(config: MinervaConfig, tables: int) -> list[float]:
    """The number of sequences of atoms that are followed in each step of a walk."""
    return [float(min(config.beam, tables**step)) if step else 1.0 for step in range(config.length)]


def _basis(epochs: int, questions: int, entities: int) -> str:
    return f"{epochs} epochs of walks for {questions:,} predicates over tables of all pairs of {entities:,} entities"
