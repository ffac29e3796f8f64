"""The time of a question whose own facts make large tables."""

import pytest
import torch

from ctp_core.base.model import Answers, Budget, Question
from ctp_core.methods import parse_config
from ctp_core.registry import create_trainer
from ctp_core.symbols import Fact, Goal
from service.samples import read_sample


@pytest.mark.parametrize("neighbours", ["tables", "nearest"])
def test_a_hub_in_the_facts_of_a_question_ends_with_its_time(neighbours: str) -> None:
    config = parse_config("facts", {"method": "ctp", "search": [], "epochs": 1, "dim": 4, "neighbours": neighbours})
    model = create_trainer(config, read_sample("family").kb, torch.device("cpu")).model()
    hub = tuple(Fact("hub", "parent", f"spoke {number}") for number in range(300))
    question = Question(Goal("hub", "parent", None), hub, top_k=2, proofs=1)
    (whole,) = model.answer([question], Budget())
    assert isinstance(whole, Answers)
    assert (len(whole.items), whole.truncated) == (2, False)
    assert model.answer([question], Budget(1e-6)) == [Answers((), truncated=True)]
