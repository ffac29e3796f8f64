"""What training by proofs costs: forecast from the counts of a KB, without torch.

The times are of one core of a shared machine, measured on KBs of 1,000 to 1,000,000 facts.
"""

from ctp_core.base.cost import Forecast
from ctp_core.evidence.config import (
    CHOOSING_FACTS,
    MAX_GROUNDINGS,
    MAX_MIDDLE_DEGREE,
    MAX_MINED_DEGREE,
    MAX_MINED_WALKS,
    VALIDATION,
    MinedConfig,
    ProofsConfig,
    RulesConfig,
)
from ctp_core.kb.profile import Profile
from ctp_core.kb.splits import HOLD_OUT_SHARE

# Attention on tables of all pairs of entities.
PRODUCT = 2.5e-11  # seconds for a multiplication in a product of tables and in its gradients
CELL = 5e-9  # seconds for a cell that a reformulator counts, saturates and passes a gradient to
STEP = 4e-3  # seconds that a step takes however small its tables are
# Mined rules on lists of edges.
WALK = 0.2e-6  # seconds to walk a path, sort it and count its body
GROUNDING = 0.25e-6  # seconds to ground a rule once
FITTED = 8e-9  # seconds that a grounding takes in a learning step
PREDICATE = 0.02  # seconds for a predicate however few facts it has
RULE = 0.25e-3  # seconds to look at a rule, besides its groundings
ENTITY = 3e-9  # seconds that a rule takes for every entity
RANKED = 4e-9  # seconds to rank one entity for one question
CHOICES = 12  # rankings of each validation question: one for each weight that is tried, and the last
FEATURE = 1.2e-6  # seconds to make and to count one thing that is said of an entity
START = 1.0  # seconds to make the edges of a small KB and to validate
FACT = 6e-6  # seconds to index a fact
PROGRAM_BYTES = 380_000_000
FACT_BYTES = 900


def forecast(config: MinedConfig, profile: Profile) -> Forecast:
    """CPU seconds and peak memory of a training with exactly these settings."""
    seconds, held = START + FACT * profile.num_facts, 0.0
    said = []
    if isinstance(config, RulesConfig) or (isinstance(config, ProofsConfig) and config.mined):
        seconds += mining_seconds(config, profile)
        held = max(held, mining_bytes(config, profile))
        said.append(f"rules of up to {config.max_length} atoms from up to {config.sample:,} facts of each predicate")
    if isinstance(config, ProofsConfig) and config.templates:
        seconds += attention_seconds(config, profile)
        held = max(held, attention_bytes(config, profile))
        said.append(f"{config.epochs} epochs of attention on tables of all pairs of {profile.num_entities:,} entities")
    peak = PROGRAM_BYTES + FACT_BYTES * profile.num_facts + held
    return Forecast(seconds, int(peak), "; ".join(said))


def attention_seconds(config: ProofsConfig, profile: Profile) -> float:
    pairs, predicates = float(profile.num_entities) ** 2, profile.num_predicates
    goal = 0.0
    for template, width in config.widths.items():
        atoms = 0 if template.unary else template.length
        mixed = 3 * 2 * predicates * atoms * pairs
        chained = 3 * max(0, atoms - 1) * pairs * profile.num_entities
        goal += width * (PRODUCT * (mixed + chained) + CELL * max(1, atoms) * pairs)
    steps = -(-predicates // config.batch_size)
    hiding = 4e-9 * 2 * predicates * pairs if config.hidden_facts else 0.0
    epoch = config.members * (goal * predicates + steps * (STEP + hiding))
    validations = max(1, config.epochs // config.eval_every) / 3
    return epoch * (config.epochs + validations)


def attention_bytes(config: ProofsConfig, profile: Profile) -> float:
    return 4.0 * attention_cells(config, profile.num_entities, profile.num_predicates)


def attention_cells(config: ProofsConfig, num_entities: int, num_predicates: int) -> float:
    """Tables of all facts, and for each goal of a batch those of its reformulators with their gradients."""
    pairs, goals = float(num_entities) ** 2, min(config.batch_size, num_predicates)
    widest = sum(width * (template.length + 3) for template, width in config.widths.items() if not template.unary)
    tables = 2 * num_predicates * (2 if config.hidden_facts else 1)
    return pairs * (tables + goals * (config.members * widest + 8))


def mining_seconds(config: MinedConfig, profile: Profile) -> float:
    predicates = used_predicates(profile)
    rules = rules_of_predicate(config, profile)
    groundings = groundings_of(config, profile)
    predicate = PREDICATE + rules * (RULE + ENTITY * profile.num_entities) + 0.1e-3 * config.steps
    seconds = WALK * walked(config, profile) + predicates * predicate
    seconds += groundings * (GROUNDING + FITTED * config.steps)
    valid = min(CHOOSING_FACTS, profile.valid_facts or HOLD_OUT_SHARE * profile.num_facts)
    ranked = 2 * RANKED * profile.num_entities * min(VALIDATION, valid) * (1 + rules / 40)
    if config.constants:
        ranked += 2 * RANKED * profile.num_entities * valid * (CHOICES + rules / 40)
        features = FEATURE * (4 * profile.num_facts + (long_features(profile) if config.constant_atoms > 1 else 0))
        seconds += features * (1 + min(predicates, 100) / 20)
    return seconds + ranked


def mining_bytes(config: MinedConfig, profile: Profile) -> float:
    of_one = min(MAX_GROUNDINGS, groundings_of(config, profile) / used_predicates(profile) * 3)
    walks = min(MAX_MINED_WALKS, walked(config, profile) / used_predicates(profile))
    held = 35 * of_one + 60 * walks + 200e6 * min(1.0, 8.0 * profile.num_predicates * profile.num_entities / 200e6)
    if config.constants and config.constant_atoms > 1:
        held += 40 * long_features(profile)
    return held + 8 * 4 * min(256 * profile.num_entities, 5e6)


def used_predicates(profile: Profile) -> int:
    return max(1, min(profile.used_predicates or profile.num_predicates, profile.num_facts))


def rules_of_predicate(config: MinedConfig, profile: Profile) -> float:
    """At most as many of each length as there are bodies of it."""
    atoms = 2.0 * profile.num_predicates
    lengths = range(1, config.max_length + 1)
    found = sum(min(config.rules_per_template, atoms**length) for length in lengths)
    facts = min(config.sample, profile.num_facts / used_predicates(profile))
    return 20 + min(found, 2 * facts * config.max_length)


def degree(profile: Profile) -> float:
    """Edges of the entity at the end of an edge: hubs are met more often than others."""
    return profile.paths / max(1.0, 2.0 * profile.num_facts)


def walked(config: MinedConfig, profile: Profile) -> float:
    """Paths that mining looks at, at most as many as the config allows."""
    facts = min(config.sample, profile.num_facts / used_predicates(profile)) * used_predicates(profile)
    each = sum(
        min(degree(profile), MAX_MINED_DEGREE) ** ((length + 1) // 2) * 2 for length in range(1, config.max_length + 1)
    )
    return min(config.mined_paths, facts * each)


def groundings_of(config: MinedConfig, profile: Profile) -> float:
    """Groundings that weights are fitted to, at most as many as the config allows."""
    facts = min(config.sample, profile.num_facts / used_predicates(profile)) * used_predicates(profile)
    paths = sum(min(degree(profile), MAX_MINED_DEGREE) ** length for length in range(1, config.max_length + 1))
    rules = rules_of_predicate(config, profile)
    reached = min(paths, 100 * rules, 0.5 * profile.num_entities * rules)
    return min(config.groundings, 2 * facts * reached, MAX_GROUNDINGS * used_predicates(profile))


def long_features(profile: Profile) -> float:
    """Things said of entities by two atoms."""
    return min(profile.paths, 2.0 * profile.num_facts * MAX_MIDDLE_DEGREE)
