"""Times a model called directly in Python, as a baseline for the cost of HTTP, queue and JSON."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from service.benchmarks.load import percentile

BATCH = 64


def run(plan: dict[str, Any]) -> dict[str, Any]:
    import torch  # noqa: PLC0415

    from ctp_core.artifact import load  # noqa: PLC0415
    from ctp_core.base.model import Budget, Question  # noqa: PLC0415
    from ctp_core.registry import load_model  # noqa: PLC0415
    from ctp_core.symbols import Goal  # noqa: PLC0415

    torch.set_num_threads(1)
    model = load_model(load(Path(plan["folder"])), torch.device("cpu"))
    questions = [Question(Goal(**body["goal"]), top_k=body["top_k"], proofs=body["proofs"]) for body in plan["bodies"]]
    model.answer(questions[:BATCH], Budget())
    seconds = []
    for question in questions:
        began = time.perf_counter()
        model.answer([question], Budget())
        seconds.append(time.perf_counter() - began)
    began = time.perf_counter()
    for start in range(0, len(questions), BATCH):
        model.answer(questions[start : start + BATCH], Budget())
    batched = len(questions) / (time.perf_counter() - began)
    ordered = sorted(seconds)
    return {
        "direct_p50_ms": percentile(ordered, 0.50),
        "direct_p99_ms": percentile(ordered, 0.99),
        "direct_batched_qps": round(batched, 1),
    }


if __name__ == "__main__":
    json.dump(run(json.load(sys.stdin)), sys.stdout)
