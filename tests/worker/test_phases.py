"""What a job shows while it runs: every phase, in order, and what was tried."""

import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctp_core.base.progress import PHASES, Progress
from service.db.migrate import migrate
from service.db.tables import Job, ModelVersion
from service.files.store_owner import adopt
from service.kbs import service as kbs
from service.settings import Settings
from service.training import repository, service
from service.training.schemas import TrainRequest
from tests.built_kbs import built
from tests.stores import files_of
from worker import glimpses, heart
from worker.heart import Heart
from worker.training_job import TrainingJob

TENANT = "default"
NUM_ENTITIES, NUM_PREDICATES = 5000, 8
SLACK = 10.0  # a busy machine may take so many times longer than the 3 seconds that a silence may last


def facts_of(num_facts: int, seed: int = 0) -> list[tuple[str, str, str]]:
    """Random facts; the last predicate is the chain of the first two where it can be."""
    choose = np.random.default_rng(seed)
    rows = np.unique(
        np.column_stack(
            [choose.integers(0, high, num_facts) for high in (NUM_ENTITIES, NUM_PREDICATES - 1, NUM_ENTITIES)]
        ),
        axis=0,
    )
    follows = {(s, p): o for s, p, o in rows.tolist()}
    chains = [(s, NUM_PREDICATES - 1, follows[o, 1]) for s, p, o in rows.tolist() if p == 0 and (o, 1) in follows]
    return [(f"e{s}", f"p{p}", f"e{o}") for s, p, o in sorted({*map(tuple, rows.tolist()), *chains})]


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TrainingJob]:
    monkeypatch.setattr(heart, "SHOW_SECONDS", 0.01)  # so that no phase is too short to be seen
    made = TrainingJob(Settings(data_dir=tmp_path, device="cpu", threads=1), threading.Event())
    migrate(made.database.engine)
    adopt(made.database, made.storage)
    yield made
    made.database.dispose()


def watched(training: TrainingJob, kb: str, **config: Any) -> tuple[list[dict[str, Any]], Job, ModelVersion]:
    """(each progress that the record of a job showed, with when it was seen; the job and its model at the end)."""
    with training.database.write() as session:
        request = TrainRequest(kb=kb, config=config)
        job, model = service.submit(session, TENANT, request, training.settings)
    seen: list[dict[str, Any]] = []
    worker = threading.Thread(target=training.run, args=(job.id,))
    worker.start()
    while True:
        alive = worker.is_alive()
        with training.database.read() as session:
            shown = session.get_one(Job, job.id).progress
        if shown and (not seen or {**shown, "at": 0} != {**seen[-1], "at": 0}):
            seen.append({**shown, "at": time.monotonic()})
        if not alive:
            break
        time.sleep(0.005)
    worker.join()
    with training.database.read() as session:
        return seen, session.get_one(Job, job.id), session.get_one(ModelVersion, model.id)


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every phase that was reported, in the order in which they first came: a record may miss short ones."""
    phases: list[str] = []
    check = Heart.check

    def heard(self: Heart, progress: Progress | None = None) -> None:
        if progress is not None and progress.phase not in phases:
            phases.append(progress.phase)
        check(self, progress)

    monkeypatch.setattr(Heart, "check", heard)
    return phases


@pytest.mark.slow
def test_every_phase_of_a_training_of_20_000_facts_shows_and_none_is_silent(
    training: TrainingJob, reported: list[str]
) -> None:
    kbs.create(training.database, files_of(training.database), TENANT, "large", built(facts_of(20_000)))
    seen, job, _ = watched(training, "large", method="rules", epochs=2, search=[], sample=200)
    assert job.status == "succeeded", job.error
    late = ["mining", "fitting", "constants", "validation", "calibration", "saving", "rules"]
    assert (reported[0], [phase for phase in reported if phase in late]) == ("loading", late)
    assert set(reported) <= set(PHASES)
    assert {"fitting", "rules", "done"} <= {progress["phase"] for progress in seen}
    gaps = [after["at"] - before["at"] for before, after in pairwise(seen)]
    assert max(gaps) < 3 * SLACK
    shares = [progress["done"] for progress in seen]
    assert shares == sorted(shares)
    counted = [progress["step"] for progress in seen if progress["phase"] == "rules"]
    assert counted == sorted(counted)


@pytest.mark.slow
def test_rules_show_their_validation_over_time_and_no_loss(
    training: TrainingJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glimpses, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(glimpses, "SHARE", 1.0)
    kbs.create(training.database, files_of(training.database), TENANT, "small", built(facts_of(2000)))
    _, job, model = watched(training, "small", method="rules", search=[], sample=100)
    with training.database.read() as session:
        rows = repository.metrics(session, job.id, 0)
    assert all(row.loss is None for row in rows)
    assert sum("mrr" in row.values for row in rows) > 2
    assert rows[-1].values.items() <= model.metrics.items()  # which also has the calibration error


@pytest.mark.slow
def test_what_was_tried_shows_while_a_job_runs_and_stays_with_the_model(training: TrainingJob) -> None:
    kbs.create(training.database, files_of(training.database), TENANT, "small", built(facts_of(600)))
    seen, job, model = watched(training, "small", method="complex", budget_seconds=2)
    assert job.status == "succeeded", job.error
    searching = [progress for progress in seen if progress["phase"] == "search"]
    assert searching
    assert searching[-1]["text"].startswith("trying settings, ")
    told = [len(progress.get("trials", [])) for progress in seen if progress["phase"] != "done"]
    assert told == sorted(told)
    assert len(model.trials) > 1
    assert {tuple(trial) for trial in model.trials} == {("settings", "metric", "value", "cpu_seconds", "chosen")}
    chosen = [trial["settings"] for trial in model.trials if trial["chosen"]]
    assert chosen
    assert all(model.config[name] == value for name, value in chosen[0].items())
