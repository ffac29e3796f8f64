"""What training by propagation costs: facts followed and entities met, step by step, for each question.

How many these are is estimated from the mean number of facts of an entity and from that of its neighbours.
"""

from math import sqrt
from typing import NamedTuple

from ctp_core.base.cost import FLOAT, Forecast, Work, forecast_of
from ctp_core.frontier.config import FrontierConfig
from ctp_core.kb.profile import Profile
from ctp_core.kb.splits import HOLD_OUT_SHARE

VALIDATION = 1000  # the most facts that are ranked between epochs
CALIBRATED = 300  # facts that a calibration asks for, from both sides and with all that is confirmed
EXPLAINED = 400  # stated facts whose proofs rules are read off
NEW = 0.5  # of the entities that facts lead to: the others were met before, or lead back
EDGE_CELLS, NODE_CELLS = 22.0, 34.0  # for each number of the vector of a followed fact, and of a met entity
STEP_CALLS = 200.0  # of torch, for all questions of a batch
ANSWERED = 1 / 3  # of the work of learning from a question: no gradient
REPLAYED = 6.0  # times answering a question: what explaining an answer takes
TABLE_CELLS = 8.0  # for each entity of a question: its logit, whether it is known, and their gradients
EDGE_BYTES, NODE_BYTES, TABLE_BYTES = 250.0, 40.0, 40.0  # the second for each number of a vector


class Reach(NamedTuple):
    """Facts followed and entities met by a question, over all steps."""

    edges: float
    nodes: float


def questions_of_epoch(num_facts: int, share: float) -> int:
    """How many facts an epoch hides and asks for."""
    return min(num_facts, max(1, round(share * num_facts)))


def reach(config: FrontierConfig, profile: Profile) -> Reach:
    mean = max(1.0, 2.0 * profile.num_facts / max(1, profile.num_entities))
    # Entities that are met have more facts than the mean, but not as many as the average neighbour: they are distinct.
    degree = sqrt(mean * max(mean, profile.paths / max(1.0, 2.0 * profile.num_facts)))
    kept, edges, nodes, followed = 1.0, 0.0, 0.0, mean
    for _ in range(config.steps):
        followed = min(config.facts_per_step, followed)
        met = min(profile.num_entities, kept + NEW * followed)
        edges, nodes, kept = edges + followed, nodes + met, min(config.width, met)
        followed = kept * degree
    return Reach(edges, nodes)


def question_work(config: FrontierConfig, profile: Profile) -> Work:
    """The work of learning from one question."""
    found, entities = reach(config, profile), profile.num_entities
    cells = config.dim * (EDGE_CELLS * found.edges + NODE_CELLS * found.nodes) + TABLE_CELLS * entities
    return Work(cells=cells, calls=STEP_CALLS * config.steps / config.at_once(entities))


def questions_asked(config: FrontierConfig, profile: Profile) -> float:
    """The questions of an epoch, if all had equally many answers: one is asked where any of its answers is hidden."""
    answers = 2 * profile.num_facts / max(1.0, profile.questions)
    return profile.questions * float(1 - (1 - config.hidden_facts) ** answers)


def forecast(config: FrontierConfig, profile: Profile) -> Forecast:
    """CPU seconds and peak memory of a training with exactly these settings, and of its rules."""
    learnt, entities = question_work(config, profile), profile.num_entities
    questions = questions_asked(config, profile)
    held_out = profile.valid_facts or HOLD_OUT_SHARE * profile.num_facts
    validations = config.epochs // config.eval_every + 1
    asked = 2 * min(held_out, VALIDATION) * validations
    calibrated = 2 * min(held_out or profile.num_facts, CALIBRATED) * (1 + config.confirmed)
    explained = min(EXPLAINED, profile.num_facts) * REPLAYED
    work = learnt * (config.epochs * questions + ANSWERED * (asked + calibrated + explained))
    found = reach(config, profile)
    step = EDGE_BYTES * found.edges + NODE_BYTES * config.dim * found.nodes + TABLE_BYTES * entities
    weights = 2 * profile.num_predicates * config.steps * 2 * (config.dim + config.attention)
    held = config.at_once(entities) * step + 5 * FLOAT * weights
    basis = f"{config.epochs} epochs of {questions:,.0f} questions with {found.edges:,.0f} facts followed by each"
    return forecast_of(work, held, profile.num_facts, basis)
