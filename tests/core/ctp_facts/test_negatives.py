"""Which false facts the paper's prover learns against."""

import numpy as np
import torch

from ctp_core.ctp_facts.negatives import NegativeSampler
from ctp_core.kb.knowledge_base import FactSet

FACTS = np.array([(0, 0, 1), (1, 1, 2)])
NUM_ENTITIES, NUM_PREDICATES = 50, 2


def drawn(known: np.ndarray, times: int = 4, num_entities: int = NUM_ENTITIES) -> np.ndarray:
    sampler = NegativeSampler(FactSet(known, num_entities, NUM_PREDICATES), num_entities, times)
    return sampler.draw(FACTS, torch.Generator().manual_seed(0))


def test_each_fact_is_corrupted_in_its_subject_in_its_object_and_in_both() -> None:
    nothing_known = FACTS[:0]
    negatives = drawn(nothing_known).reshape(4, 3, len(FACTS), 3)
    np.testing.assert_array_equal(negatives[:, 0, :, 2], np.tile(FACTS[:, 2], (4, 1)))
    np.testing.assert_array_equal(negatives[:, 1, :, 0], np.tile(FACTS[:, 0], (4, 1)))
    np.testing.assert_array_equal(negatives[..., 1], np.tile(FACTS[:, 1], (4, 3, 1)))
    assert (negatives[:, 2] != FACTS).any()


def test_a_corrupted_fact_that_is_true_is_not_a_negative() -> None:
    few = 3
    known = np.array([(0, 0, 1), (1, 1, 2), (2, 0, 1), (0, 0, 0), (1, 1, 1)])
    negatives = drawn(known, times=20, num_entities=few)
    assert 0 < len(negatives) < 20 * 3 * len(FACTS)
    assert not FactSet(known, few, NUM_PREDICATES).states(negatives).any()
