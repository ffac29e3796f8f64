"""Measures how fast one core of this machine is beside the one that forecasts were fitted on."""

import time

import numpy as np

REFERENCE_SECONDS = 0.030  # CPU time of the work below where the constants of the forecasts were measured
SLOWEST, FASTEST = 0.1, 10.0  # a measurement outside says more about the moment than about the machine


def measured_speed() -> float:
    """Above 1 on a faster machine. A few hundredths of a second: products of small tables, a sort and plain Python."""
    table, keys = np.random.default_rng(0).random((64, 64)), np.random.default_rng(0).random(100_000)
    started = time.thread_time()
    for _ in range(100):
        table @ table
    np.sort(keys)
    sum(i * i for i in range(100_000))
    seconds = max(time.thread_time() - started, 1e-6)
    return float(np.clip(REFERENCE_SECONDS / seconds, SLOWEST, FASTEST))
