"""What training the prover on graphs costs: steps times the ways in which rules can split the pairs of a graph."""

from ctp_core.base.cost import FLOAT, Forecast, Work, forecast_of, num_steps
from ctp_core.ctp_graphs.config import CtpGraphsConfig
from ctp_core.kb.profile import Profile
from ctp_core.rules import Template

PASSES = 3  # of each product: forwards, and two backwards
PER_WAY = 60.0  # numbers touched for each way, predicate and rule of a step, gradients included
KEPT_PER_WAY = 12.0  # numbers kept of them for the gradient
STEP_CALLS, LEVEL_CALLS = 200.0, 60.0
VALIDATED = 0.3  # of the time of the steps: validation, and its deeper proofs
GRAPH_CALLS = 40.0  # to bring a graph into its canonical form
PER_COUNT = 3000.0  # numbers touched to count one rule in one graph, in plain Python
GRAPH_BYTES = 4000.0


def forecast(config: CtpGraphsConfig, profile: Profile) -> Forecast:
    graphs = profile.num_graphs or max(1, profile.num_facts // max(1, profile.max_length))
    steps, predicates = num_steps(config, graphs), profile.num_predicates
    mean = profile.num_facts / max(1, graphs)
    levels = min(config.train_depth, max(1, profile.max_length - 1))
    kinds = len(set(config.templates))
    proved = _proved(config, mean, predicates) * (config.batch_size * config.theories)
    step = Work(calls=STEP_CALLS + LEVEL_CALLS * levels * kinds) + proved
    counted = Work(cells=PER_COUNT) * (len(config.templates) * min(predicates, 50) * graphs)
    work = step * (steps * (1 + VALIDATED)) + Work(calls=GRAPH_CALLS) * graphs + counted
    ways = _ways(config, float(profile.max_length), predicates)
    held = config.theories * config.batch_size * ways * KEPT_PER_WAY
    basis = f"{steps:,} steps of {config.batch_size} graphs of up to {profile.max_length:,} facts"
    return forecast_of(work, FLOAT * held + GRAPH_BYTES * graphs, profile.num_facts, basis)


def _proved(config: CtpGraphsConfig, facts: float, predicates: int) -> Work:
    """One graph that is a chain of so many facts."""
    rules, pairs = len(config.templates), facts * (facts + 1) / 2
    transformed = pairs * predicates**2 * rules * 2
    return Work(PASSES * transformed * (config.prover == "tabled"), PER_WAY * _ways(config, facts, predicates))


def _ways(config: CtpGraphsConfig, facts: float, predicates: int) -> float:
    """Ways to prove all pairs of a chain, for every predicate and rule: a pair of k facts splits at k - 1 entities."""
    longest = max(Template.parse(text).length for text in config.templates)
    ways = max(1.0, (facts - 1) * facts * (facts + 1) / 6) if longest > 1 else facts
    rules = len(config.templates)
    if config.prover == "tabled":
        return ways * predicates * rules
    # The recursion of the paper makes new goals at every level, instead of looking them up in one table.
    goals = sum((2.0 * rules) ** level for level in range(1, config.train_depth + 1))
    return ways * predicates * goals
