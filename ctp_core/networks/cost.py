"""What training a network on graphs costs: steps times symbols times the sizes of its layers."""

from ctp_core.base.cost import FLOAT, Forecast, Work, forecast_of, num_steps
from ctp_core.kb.profile import Profile
from ctp_core.networks.config import NetworkConfig

GRAPH_BYTES = 3000.0
VALIDATED = 0.2


def forecast(config: NetworkConfig, profile: Profile) -> Forecast:
    graphs = profile.num_graphs or max(1, profile.num_facts // max(1, profile.max_length))
    symbols = 3.0 * (profile.max_length + 1)
    width = float(max(getattr(config, "hidden", 0), config.dim))
    weights = (5.0 if config.method in ("cnn", "cnnh") else 12.0) * width * width
    steps = num_steps(config, graphs)
    step = Work(3 * weights * symbols * config.batch_size, 60 * width * symbols * config.batch_size, 500 + 20 * symbols)
    work = step * (steps * (1 + VALIDATED))
    held = 40 * weights + 60 * config.batch_size * symbols * width
    basis = f"{steps:,} steps of {config.batch_size} graphs of up to {profile.max_length} facts"
    return forecast_of(work, FLOAT * held + GRAPH_BYTES * graphs, profile.num_facts, basis)
