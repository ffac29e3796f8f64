"""Tables of all pairs of entities are made only where they fit, in training and for a question."""

import pytest
import torch

from ctp_core.base import cost
from ctp_core.base.config import BaseConfig
from ctp_core.base.edges import atom_tables
from ctp_core.base.model import Answers, Budget, Question
from ctp_core.ctp_facts.config import CtpFactsConfig
from ctp_core.errors import BadQuestion, ConfigError
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.kb.profile import Profile
from ctp_core.methods import forecast
from ctp_core.registry import create_trainer
from ctp_core.symbols import Fact, Goal
from ctp_core.walkers.config import MinervaConfig, NeuralLpConfig

CPU = torch.device("cpu")
KB = FactsKB.from_facts({"train": [Fact(*f) for f in (("a", "p", "b"), ("b", "q", "c"), ("a", "q", "c"))]})
SMALL = {"epochs": 1, "dim": 4}


@pytest.mark.parametrize(
    "config",
    [NeuralLpConfig(**SMALL), MinervaConfig(**SMALL, beam=4), CtpFactsConfig(depth=1, templates=("0", "1"), **SMALL)],
    ids=lambda config: config.method,
)
def test_a_question_with_too_many_new_entities_is_refused(config: BaseConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    model = create_trainer(config, KB, CPU).fit()
    monkeypatch.setattr(cost, "MAX_CELLS", 2.0 * 2 * 6**2)
    few = tuple(Fact("a", "p", f"new{i}") for i in range(3))
    many = (*few, Fact("a", "p", "new3"))
    answers, error = model.answer([Question(Goal("a", "q", None), facts) for facts in (few, many)], Budget())
    assert isinstance(answers, Answers)
    assert isinstance(error, BadQuestion)
    assert "7 entities" in str(error)


def test_the_walks_that_are_followed_at_once_count_as_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    model = create_trainer(MinervaConfig(**SMALL, beam=16), KB, CPU).fit()
    monkeypatch.setattr(cost, "MAX_CELLS", 16.0 * len(KB.entities) ** 2)
    (error,) = model.answer([Question(Goal("a", "q", None), (Fact("a", "p", "new"),))], Budget())
    assert isinstance(error, BadQuestion)


@pytest.mark.parametrize(
    "config",
    [NeuralLpConfig(**SMALL), MinervaConfig(**SMALL, beam=16), CtpFactsConfig(loss="all", **SMALL)],
    ids=lambda config: config.method,
)
def test_a_training_whose_tables_are_forecast_not_to_fit_is_refused(
    config: BaseConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = Profile(kind="facts", num_facts=9000, num_entities=20_000, num_predicates=2)
    assert forecast(config, profile).peak_bytes > 4e9
    create_trainer(config, KB, CPU)
    # Room for the facts as tables, but not for what a step keeps beside them.
    monkeypatch.setattr(cost, "MAX_CELLS", 2.0 * len(KB.entities) ** 2)
    with pytest.raises(ConfigError, match="tables of all pairs"):
        create_trainer(config, KB, CPU)


def test_the_tables_of_a_kb_are_made_once_for_all_its_predicates(monkeypatch: pytest.MonkeyPatch) -> None:
    model, made = create_trainer(NeuralLpConfig(**SMALL), KB, CPU).fit(), list[int]()
    monkeypatch.setattr("ctp_core.walkers.model.atom_tables", lambda *sizes: made.append(1) or atom_tables(*sizes))
    model.answer([Question(Goal("a", None, "c")), Question(Goal("a", "p", None))], Budget())
    assert len(made) == 1


@pytest.mark.parametrize("loss", ["all", "sampled"])
def test_more_chains_than_tables_fit_are_refused_before_training(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = CtpFactsConfig(depth=2, templates=("0", "2", "2"), loss=loss, **SMALL)
    create_trainer(config, KB, CPU)
    monkeypatch.setattr(cost, "MAX_CELLS", 100.0)  # P·E² is 18
    with pytest.raises(ConfigError, match="lower `depth`"):
        create_trainer(config, KB, CPU)
