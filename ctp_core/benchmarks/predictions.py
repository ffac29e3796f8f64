"""`ctp bench predictions`: how many questions a second a prediction in bulk asks, on one core."""

import time
from dataclasses import asdict, dataclass
from typing import Any

from ctp_core.base.facts_model import FactsModel
from ctp_core.base.trainer import OnStep, ignore
from ctp_core.benchmarks.links import LinksRun, trained
from ctp_core.predict import Predictor, Wanted


@dataclass(frozen=True)
class Speed:
    """What all questions (s, p, ?) took: every entity with every predicate."""

    min_score: float
    proofs: int
    questions: int
    rows: int
    proved: int
    cpu_seconds: float
    wall_seconds: float

    @property
    def per_cpu_second(self) -> float:
        return self.questions / self.cpu_seconds


def run(links: LinksRun, top_k: int, most_seconds: float, on_epoch: OnStep = ignore) -> dict[str, Any]:
    """Trains once, then measures with and without proofs: above a score of 0.5, and of all answers.

    A row ends after `most_seconds` of CPU time, between two predicates.
    """
    model = trained(links, links.kb(0), 0, on_epoch)
    warm = [Predictor(model, Wanted(name, top_k=top_k)) for name in model.kb.predicates]
    for predictor in warm:
        next(iter(predictor.batches()), None)
    speeds = [measure(model, least, proofs, top_k, most_seconds) for least in (0.5, 0.0) for proofs in (0, 1)]
    rows = [asdict(speed) | {"questions_per_cpu_second": speed.per_cpu_second} for speed in speeds]
    return {"dataset": links.dataset, "model": links.model, "preset": links.preset, "top_k": top_k, "rows": rows}


def measure(model: FactsModel, min_score: float, proofs: int, top_k: int, most_seconds: float) -> Speed:
    questions = rows = proved = 0
    wall, cpu = time.perf_counter(), time.process_time()
    for predicate in model.kb.predicates:
        wanted = Wanted(predicate, list(model.kb.entities), min_score=min_score, top_k=top_k, proofs=proofs)
        predictor = Predictor(model, wanted)
        for _, found in predictor.batches():
            rows += len(found)
            proved += sum(row.proof is not None for row in found)
        questions += predictor.num_steps
        if time.process_time() - cpu > most_seconds:
            break
    spent = time.process_time() - cpu, time.perf_counter() - wall
    return Speed(min_score, proofs, questions, rows, proved, *spent)
