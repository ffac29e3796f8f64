"""What the presets make of a handful of facts."""

import pytest
import torch

from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.kb.profile import Profile
from ctp_core.methods import METHODS
from ctp_core.presets import PRESETS
from ctp_core.registry import create_trainer
from ctp_core.symbols import Fact, Goal
from tests.core.base.test_facts_model import ask

SECTIONS = {"strings": ("mara", "violins", "cellos"), "winds": ("otto", "flutes", "oboes"), "brass": ("lena", "horns")}
LEADS = [Fact(leader, "leads", section) for section, (leader, *_) in SECTIONS.items()]
INCLUDES = [Fact(section, "includes", part) for section, (_, *parts) in SECTIONS.items() for part in parts]
ANSWERS = [Fact(leader, "answers_for", part) for leader, *parts in SECTIONS.values() for part in parts]
ORCHESTRA = FactsKB.from_facts({"train": [*LEADS, *INCLUDES, Fact("brass", "includes", "tubas"), *ANSWERS]})
# `best` of the others is their `fast`.
TRAINED = [(method, preset) for method in ("proofs", "hybrid") for preset in ("fast", "best")]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "preset"), [*TRAINED, ("ctp", "fast"), ("rules", "fast")])
def test_what_follows_from_two_facts_is_the_first_answer(method: str, preset: str) -> None:
    model = create_trainer(
        METHODS["facts", method].preset(Profile.of(ORCHESTRA), PRESETS[preset]), ORCHESTRA, torch.device("cpu")
    ).fit()
    (answers,) = ask(model, Goal(None, "answers_for", "tubas"))
    assert answers[0].fact.subject == "lena"
    assert answers[0].score > 0.5


@pytest.mark.slow
def test_the_prover_scores_what_is_stated_as_certain() -> None:
    kb = FactsKB.from_facts({"train": [Fact(name, "same", name) for name in "abc"]})
    model = create_trainer(
        METHODS["facts", "ctp"].preset(Profile.of(kb), PRESETS["fast"]), kb, torch.device("cpu")
    ).fit()
    (answers,) = ask(model, Goal("a", "same", None))
    assert (answers[0].fact.object, answers[0].score) == ("a", pytest.approx(1))
