"""What training the prover on facts costs: chains of rules over tables of all pairs, or over the nearest entities."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from ctp_core.base.cost import FLOAT, SUMS, Forecast, Work, fits_tables, forecast_of
from ctp_core.ctp_facts.config import WAYS, CtpFactsConfig
from ctp_core.ctp_facts.plans import Plan, plans
from ctp_core.errors import ConfigError
from ctp_core.kb.profile import Profile
from ctp_core.rules import Template

KEPT = 3  # tables of all pairs that are kept for each place of a chain
PER_ATOM = 5.0  # numbers touched for each pair, known predicate and place of a chain
PER_MIDDLE = 1.2  # numbers touched for each pair and each entity in the middle of a path
PER_PAIR = 60.0  # numbers touched for each pair by the loss
GOAL_CALLS = 400.0
EDGE_BYTES = 60.0  # of a fact between two entities that may be taken for others
PER_EDGE = 60.0  # numbers touched for each such fact, in each step
VALIDATED = 300  # facts ranked where tables do not fit


def training_plans(config: CtpFactsConfig) -> list[tuple[int, int]]:
    """(number of chains, atoms of each) of every shape that training searches."""
    templates = [Template.parse(text) for text in config.templates]
    groups = Counter(template for template in templates if template.length)
    matched = any(template.length == 0 for template in templates)
    return shapes_of(plans(groups, min(config.depth, config.train_depth), match_facts=matched), groups)


def shapes_of(found: Iterable[Plan], groups: Mapping[Template, int]) -> list[tuple[int, int]]:
    return [(plan.width(groups), len(plan.flips)) for plan in found]


def is_dense(config: CtpFactsConfig, num_entities: int, num_predicates: int) -> bool:
    return config.neighbours == "tables" or (config.neighbours == "auto" and fits_tables(num_entities, num_predicates))


def step_cells(config: CtpFactsConfig, shapes: list[tuple[int, int]], num_entities: int, num_predicates: int) -> float:
    """Numbers in the tables of one learning step on tables of all pairs."""
    pairs = float(num_entities) ** 2
    if config.loss == "summed":
        return SUMS * pairs * num_predicates
    if config.loss == "all":
        return KEPT * pairs * sum(width * atoms for width, atoms in shapes)
    goals = config.batch_size * (1 + WAYS * config.negatives)
    return goals * pairs * max((width for width, atoms in shapes if atoms > 2), default=0)


def forecast(config: CtpFactsConfig, profile: Profile) -> Forecast:
    entities, predicates = profile.num_entities, profile.num_predicates
    try:
        shapes = training_plans(config)
    except ConfigError:  # too many shapes: training says so at once
        shapes = []
    if not is_dense(config, entities, predicates):
        return _nearest(config, profile, shapes)
    pairs, asked = float(entities) ** 2, profile.used_predicates or predicates
    epoch = {"summed": _summed, "all": _ranked, "sampled": _sampled}[config.loss](config, profile, shapes)
    ranked = min(1.0, (profile.valid_facts or 0.05 * profile.num_facts) / max(1, asked)) * asked
    answered = _chains(shapes, entities, predicates) * ranked
    work = epoch * config.epochs + answered * (1 + config.epochs / config.eval_every)
    held = step_cells(config, shapes, entities, predicates) + pairs * (2 * predicates + 10)
    kind = {"summed": "all proofs of", "all": "rankings among", "sampled": "corrupted facts among"}[config.loss]
    basis = f"{config.epochs} epochs of {kind} {entities:,} entities, with {sum(w for w, _ in shapes)} chains of rules"
    return forecast_of(work, FLOAT * held, profile.num_facts, basis)


def _chains(shapes: list[tuple[int, int]], entities: int, predicates: int) -> Work:
    """All chains of one goal predicate, over all pairs."""
    pairs = float(entities) ** 2
    cells = sum(
        width * (PER_ATOM * atoms * predicates * pairs + PER_MIDDLE * (atoms - 1) * pairs * entities)
        for width, atoms in shapes
    )
    return Work(cells=cells, calls=GOAL_CALLS)


def _ranked(config: CtpFactsConfig, profile: Profile, shapes: list[tuple[int, int]]) -> Work:
    entities, predicates, pairs = profile.num_entities, profile.num_predicates, float(profile.num_entities) ** 2
    asked = profile.used_predicates or predicates
    goal = _chains(shapes, entities, predicates) + Work(cells=PER_PAIR * pairs)
    step = Work(cells=4 * PER_ATOM * predicates * pairs, calls=GOAL_CALLS)
    return goal * asked + step * math.ceil(asked / config.batch_size)


def _summed(config: CtpFactsConfig, profile: Profile, shapes: list[tuple[int, int]]) -> Work:
    entities, predicates, pairs = profile.num_entities, profile.num_predicates, float(profile.num_entities) ** 2
    asked = profile.used_predicates or predicates
    mixed = sum(width for width, _ in shapes)
    step = Work(products=12 * predicates * pairs * entities, cells=100 * predicates * pairs, calls=GOAL_CALLS)
    return step * math.ceil(asked / config.batch_size) + Work(products=6 * mixed * predicates * pairs) * asked


def _sampled(config: CtpFactsConfig, profile: Profile, shapes: list[tuple[int, int]]) -> Work:
    entities, facts = profile.num_entities, float(profile.num_facts)
    goals = facts * (1 + WAYS * config.negatives)
    of_predicate = facts / max(1, profile.used_predicates or profile.num_predicates)
    cells = sum(
        width * (profile.num_predicates * of_predicate if atoms == 1 else atoms * entities * profile.num_predicates)
        for width, atoms in shapes
    )
    steps = math.ceil(facts / config.batch_size)
    return Work(cells=2 * cells) * goals + Work(calls=GOAL_CALLS * max(1, len(shapes))) * steps


def _nearest(config: CtpFactsConfig, profile: Profile, shapes: list[tuple[int, int]]) -> Forecast:
    entities, facts = profile.num_entities, float(profile.num_facts)
    edges = facts * config.nearest**2
    width = sum(width * atoms for width, atoms in shapes) or 1
    steps = math.ceil(facts / config.batch_size)
    searched = Work(products=config.dim, cells=4) * (float(entities) ** 2 * (1 + steps / config.nearest_every))
    step = Work(cells=PER_EDGE * config.batch_size * width * edges / max(1, entities), calls=GOAL_CALLS * width)
    ranked = Work(cells=PER_EDGE * width * edges / max(1, entities), calls=GOAL_CALLS) * (2 * VALIDATED)
    work = (step * steps + searched) * config.epochs + ranked * (1 + config.epochs / config.eval_every)
    held = EDGE_BYTES * edges + FLOAT * 6 * entities * config.dim
    basis = f"{config.epochs} epochs of {facts:,.0f} facts, with {config.nearest} entities that may stand in for each"
    return forecast_of(work, held, profile.num_facts, basis)
