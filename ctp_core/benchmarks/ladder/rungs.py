"""The rungs of the ladder, and what is measured on one: what training costs, what it finds, what its scores mean."""

import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from ctp_core import artifact, methods
from ctp_core.base.config import BaseConfig
from ctp_core.base.cost import Forecast
from ctp_core.base.evaluation import known_filters, rank_facts, ranking_metrics
from ctp_core.base.facts_model import FactsModel
from ctp_core.base.model import Answers, Budget, Model, Question
from ctp_core.base.reliability import BEST, WORTH_SHOWING, expected_calibration_error, reliability
from ctp_core.benchmarks.ladder.memory import peak_mb, reset_peak
from ctp_core.benchmarks.ladder.planted import planted_ranks
from ctp_core.benchmarks.ladder.synthetic import Shape, SyntheticKB, generate
from ctp_core.errors import ConfigError
from ctp_core.kb.knowledge_base import FactSet, FactsKB
from ctp_core.kb.profile import Profile
from ctp_core.presets import DEFAULT_PRESET, find_preset
from ctp_core.registry import create_trainer, load_model
from ctp_core.rules import Rule
from ctp_core.symbols import Fact, Goal

Row = dict[str, Any]

FACTS = (1_000, 10_000, 100_000, 1_000_000)
PREDICATES = (6, 25, 1_000)
DENSITIES = ("sparse", "dense")
FIRST_OWN = Shape(20_000, 25, "dense", num_entities=2_000)  # the KB that the README begins with

WARM = 40  # questions, of which the median is given
CALIBRATED = 500  # questions whose answers are compared with the truth
TOP_K, PROOFS = 10, 3
EXTRA = 2  # rules that may be listed above the planted ones of a head

# What a row always has, in this order; None where it is not known.
KEYS = (
    *("facts", "predicates", "shape", "mrr", "planted_mrr", "planted_rules", "planted_found", "train_cpu_seconds"),
    *("peak_rss_mb", "forecast_cpu_seconds", "forecast_bytes", "ece", "first_query_ms", "warm_query_ms"),
)


@dataclass(frozen=True)
class Task:
    """A rung and how to train on it; `method` None is the one of the preset."""

    shape: Shape
    preset: str = DEFAULT_PRESET
    method: str | None = None

    @property
    def rung(self) -> str:
        """`20000-25-dense`: what `--only` names."""
        return f"{self.shape.facts}-{self.shape.predicates}-{self.shape.density}"

    @property
    def name(self) -> str:
        return "-".join((self.rung, self.preset, *filter(None, [self.method])))

    @property
    def empty(self) -> Row:
        """A row without figures."""
        shape = self.shape
        known = {"facts": shape.facts, "predicates": shape.predicates, "shape": shape.density}
        return {**dict.fromkeys(KEYS), **known, "rung": self.rung, "preset": self.preset, "method": self.method}


def shapes() -> list[Shape]:
    """All rungs, the small ones first."""
    grid = [Shape(facts, count, density) for facts in FACTS for count in PREDICATES for density in DENSITIES]
    return sorted([*grid, FIRST_OWN], key=lambda shape: shape.facts)


def chosen(only: Iterable[str], preset: str, method: str | None) -> list[Task]:
    """The rungs that match one of the patterns, all without patterns; raises ConfigError where nothing matches."""
    tasks, patterns = [Task(shape, preset, method) for shape in shapes()], list(only)
    find_preset(preset)
    if method is not None:
        methods.find_method("facts", method)
    for pattern in patterns:
        if not any(fnmatch(task.rung, pattern) for task in tasks):
            raise ConfigError(f"no rung matches {pattern!r}: rungs are {', '.join(task.rung for task in tasks)}")
    return [task for task in tasks if not patterns or any(fnmatch(task.rung, pattern) for pattern in patterns)]


def measure(task: Task, on_phase: Callable[[str], None] = lambda _: None) -> Row:
    """The figures of one rung; meant for a process of its own, whose peak memory is then that of the training.

    Trains on the KB without its test facts, so that these are unknown to the model as they are to its user.
    """
    on_phase("generating the KB")
    made = generate(task.shape)
    kb = replace(made.kb, splits={name: ids for name, ids in made.kb.splits.items() if name != "test"})
    config, forecast = _settings(task, kb)
    on_phase("training")
    reset_peak()
    started = time.process_time()
    model = create_trainer(config, kb, torch.device("cpu")).fit()
    rules, stored = model.rules(), model.to_artifact()
    row = task.empty | {
        "facts": sum(map(len, made.kb.splits.values())),
        "entities": len(kb.entities),
        "predicates": len(kb.predicates),
        "method": config.method,
        "train_cpu_seconds": time.process_time() - started,
        "peak_rss_mb": peak_mb(),
        "forecast_cpu_seconds": forecast.cpu_seconds,
        "forecast_bytes": forecast.peak_bytes,
    }
    del model
    on_phase("asking questions")
    row |= _answers(_loaded(stored), made)
    on_phase("ranking test facts")
    return row | found_rules(rules, made) | _ranking(_loaded(stored), made)


def _settings(task: Task, kb: FactsKB) -> tuple[BaseConfig, Forecast]:
    profile = Profile.of(kb)
    config = methods.preset_for(profile, task.preset, task.method, None)
    return config, methods.forecast(config, profile)


def _loaded(stored: artifact.Artifact) -> FactsModel:
    """The model as a query worker has it: read from its files."""
    with tempfile.TemporaryDirectory(prefix="ctp-ladder-") as folder:
        artifact.save(stored, Path(folder) / "model")
        model = load_model(artifact.load(Path(folder) / "model"), torch.device("cpu"))
    assert isinstance(model, FactsModel)
    return model


def _ranking(model: FactsModel, made: SyntheticKB) -> Row:
    """Filtered test MRR, and that of the planted rules applied by hand."""
    kb = made.kb
    with torch.no_grad():
        ranks = rank_facts(kb.splits["test"], model.kb_logits, known_filters(kb, "test"))
    return {
        "mrr": ranking_metrics(ranks)["mrr"],
        "planted_mrr": ranking_metrics(planted_ranks(made, "test"))["mrr"],
    }


def found_rules(rules: Iterable[Rule], made: SyntheticKB) -> Row:
    """How many planted rules are listed: of a head with k of them, among its first k + 2.

    Rules are listed as `GET /models/{model}/rules` does, without priors. A planted rule with constants is looked for in
    the list that has such rules, any other one in the list without them.
    """
    every = list(rules)
    lists = {False: _by_head(rule for rule in every if rule.constant is None), True: _by_head(every)}
    missed = [
        rule.text
        for head, planted in made.heads.items()
        for rule in planted
        if rule.text not in lists[rule.constant is not None].get(head, [])[: len(planted) + EXTRA]
    ]
    return {
        "planted_rules": len(made.rules),
        "planted_found": len(made.rules) - len(missed),
        "missed": missed[:20],
    }


def _by_head(rules: Iterable[Rule]) -> dict[str, list[str]]:
    listed: dict[str, list[str]] = {}
    for rule in rules:
        if not rule.prior and (rule.support is None or rule.support):
            listed.setdefault(rule.predicate, []).append(rule.text)
    return listed


def _answers(model: FactsModel, made: SyntheticKB) -> Row:
    """CPU time of the first and of later questions, and how far scores are from the share of true answers."""
    asked = questions(made.kb, max(CALIBRATED, WARM))
    times = [_timed(model, goal) for goal in asked[: WARM + 1]]
    return {
        "first_query_ms": times[0],
        "warm_query_ms": median(times[1:] or times),
        **calibration(model, made, asked[:CALIBRATED]),
    }


def questions(kb: FactsKB, count: int) -> list[Goal]:
    """Asks for the object, then for the subject, of test facts in a fixed random order; each question once.

    Several facts may answer one question: its answers would count as often as it has any.
    """
    test = kb.splits["test"]
    facts = [kb.fact(row) for row in test[np.random.default_rng(0).permutation(len(test))].tolist()]
    every = (goal for f in facts for goal in (Goal(f[0], f[1], None), Goal(None, f[1], f[2])))
    return list(dict.fromkeys(every))[:count]


def _timed(model: Model, goal: Goal) -> float:
    started = time.process_time()
    _ask(model, Question(goal, top_k=TOP_K, proofs=PROOFS))
    return 1000 * (time.process_time() - started)


def _ask(model: Model, question: Question) -> Answers:
    [answers] = model.answer([question], Budget())
    if not isinstance(answers, Answers):
        raise answers
    return answers


def calibration(model: Model, made: SyntheticKB, asked: Iterable[Goal]) -> Row:
    """Expected calibration error over the ten best unknown answers of each question and all others scored ≥ .1."""
    scores, facts = [], []
    for goal in asked:
        for answer in _unknown(model, goal, len(made.kb.entities)):
            scores.append(answer.score)
            facts.append(_ids(made.kb, answer.fact))
    true = FactSet(made.truth, len(made.kb.entities), len(made.kb.predicates)).states(np.array(facts).reshape(-1, 3))
    bins = reliability(np.array(scores), true)
    error = expected_calibration_error(np.array(scores), true) if bins else None
    table = [{"answers": int(one.answers), "score": one.score, "true": one.true} for one in bins]
    return {"ece": error, "reliability": table}


def _unknown(model: Model, goal: Goal, num_entities: int) -> list[Any]:
    top_k = BEST
    while True:
        items = _ask(model, Question(goal, top_k=top_k, proofs=0, exclude_known=True)).items
        if len(items) < top_k or items[-1].score < WORTH_SHOWING or top_k >= num_entities:
            return [answer for place, answer in enumerate(items) if place < BEST or answer.score >= WORTH_SHOWING]
        top_k *= 8


def _ids(kb: FactsKB, fact: Fact) -> tuple[int, int, int]:
    return kb.entities.id(fact.subject), kb.predicates.id(fact.predicate), kb.entities.id(fact.object)
