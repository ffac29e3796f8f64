"""A KB whose rules need both constants and chains."""

import numpy as np

from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.symbols import Fact


def towns() -> FactsKB:
    """Whoever lives in town k speaks language k, which a constant tells; friends are mutual, which a chain tells."""
    choose = np.random.default_rng(0)
    people = [f"person{index}" for index in range(60)]
    facts = {"train": list[Fact](), "valid": list[Fact]()}
    for index, person in enumerate(people):
        facts["train"].append(Fact(person, "lives_in", f"town{index % 4}"))
        facts["valid" if index % 5 == 0 else "train"].append(Fact(person, "speaks", f"language{index % 4}"))
        friend = people[int(choose.integers(60))]
        facts["train"].append(Fact(person, "friend", friend))
        facts["valid" if index % 5 == 1 else "train"].append(Fact(friend, "friend", person))
    facts["valid"] = [fact for fact in facts["valid"] if fact not in set(facts["train"])]
    return FactsKB.from_facts(facts)
