"""Measures how fast one core of this machine is beside the one that forecasts were fitted on."""

import time

import numpy as np

REFERENCE_SECONDS = 0.0145  # CPU time of a round below where the constants of the forecasts were measured
ROUNDS = 5  # the quickest counts: other programs make a round slower, but none quicker
SLOWEST, FASTEST = 0.1, 10.0  # a measurement outside says more about the moment than about the machine


def measured_speed() -> float:
    """Above 1 on a faster machine. Takes a quarter of a second."""
    choose = np.random.default_rng(0)
    table = choose.random((400, 400), dtype=np.float32)
    keys, places = choose.random(200_000), choose.integers(0, 1_000_000, 200_000)
    seconds = min(_round(table, keys, places) for _ in range(ROUNDS))
    return float(np.clip(REFERENCE_SECONDS / max(seconds, 1e-6), SLOWEST, FASTEST))


def _round(table: np.ndarray, keys: np.ndarray, places: np.ndarray) -> float:
    """What trainings do, in about equal parts: products of tables, passes over memory, sorts and plain Python."""
    started = time.thread_time()
    for _ in range(4):
        table @ table
    np.bincount(places, keys, 1_000_000)
    np.sort(keys)
    sum(i * i for i in range(150_000))
    return time.thread_time() - started
