"""The settings of the link table, data set by data set: here, and only here, a setting may depend on a benchmark.

They are given over the preset `paper`. How those that the paper does not print were found is in docs/lab/links.md.
"""

from typing import Any

COUNTRIES = ("countries-s1", "countries-s2", "countries-s3")
# The rules of each template in the code published with GNTP.
GNTP_RULES: dict[str, dict[str, int]] = {
    "countries-s1": {"1R": 3, "2": 3},
    "countries-s2": {"1R": 3, "2": 6},
    "countries-s3": {"1R": 3, "2": 6, "3": 3},
    "kinship": {"1": 20, "1R": 20, "2": 20},
    "nations": {"1": 20, "1R": 20, "2": 20},
    "umls": {"1": 20, "1R": 20, "2": 20},
}
# The published commands of the prover.
CTP: dict[str, dict[str, Any]] = {
    **{dataset: {"templates": ("0", "2"), "batch_size": 8} for dataset in ("umls", *COUNTRIES)},
    "kinship": {"templates": ("0", "1", "1R"), "select": "attentive", "batch_size": 8},
    "nations": {"templates": ("0", "2", "1R"), "batch_size": 16},
}
# The prover trained by rankings; chosen on validation facts.
ALIKE: dict[str, Any] = {
    **{"dim": 100, "entity_start": "facts", "learning_rate": 0.3, "schedule": "one-cycle", "ranked": "hidden"},
    **{"negatives": 1},
}
EXCLUSIVE: dict[str, Any] = {
    **{**ALIKE, "loss": "all", "templates": ("0", "2", "2"), "batch_size": 1, "epochs": 40, "eval_every": 40},
    **{"hidden_facts": 0.6, "hidden_subjects": 0.5, "questions": "objects", "rivals": "exclusive"},
}
CTP_RANKED: dict[str, dict[str, Any]] = {
    **dict.fromkeys(COUNTRIES, EXCLUSIVE),
    "kinship": {
        **{**ALIKE, "loss": "summed", "select": "attentive", "templates": ("0", "1R"), "rule_rate": 0.1},
        **{"batch_size": 25, "epochs": 100, "eval_every": 100, "hidden_facts": 0.7, "predicate_weight": 5},
    },
    "nations": {
        **{"loss": "all", "templates": ("1", "1R"), "batch_size": 8, "epochs": 30, "hidden_facts": 0.3},
        **{"entity_scale": 3, "negatives": 1},
    },
    "umls": {**ALIKE, "loss": "all", "templates": ("0", "2"), "batch_size": 2, "epochs": 10, "hidden_facts": 0.5},
}
# Predicates are so few there that all sequences of three can be followed.
MINERVA: dict[str, dict[str, Any]] = {
    dataset: {"length": 3, "epochs": 100, "batch_size": 1, "learning_rate": 0.02} for dataset in COUNTRIES
}


def gntp(dataset: str) -> dict[str, Any]:
    """k was chosen on validation facts of Nations, where 25 epochs are more than enough."""
    rules = GNTP_RULES[dataset]
    templates = ("0", *(one for one in rules for _ in range(rules[one])))
    return {"select": "gntp", "templates": templates, "top_k": 4, "batch_size": CTP[dataset]["batch_size"]}


def settings(system: str, dataset: str) -> dict[str, Any]:
    """What a system of the link table is given over its preset."""
    if system == "gntp":
        return gntp(dataset)
    return {"ctp": CTP, "minerva": MINERVA}.get(system, {}).get(dataset, {})
