"""Counters for Prometheus. Workers count in Redis, since Prometheus does not scrape them."""

from prometheus_client import CollectorRegistry, Counter, Histogram

REGISTRY = CollectorRegistry()
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
REQUESTS = Counter("ctp_requests", "Requests by route and status.", ["method", "route", "status"], registry=REGISTRY)
LATENCY = Histogram(
    "ctp_request_seconds",
    "Time from the head of a request to the end of its answer.",
    ["method", "route"],
    buckets=SECONDS,
    registry=REGISTRY,
)
BATCH_SIZE = Histogram(
    "ctp_batch_questions",
    "Questions in one batch to a query worker.",
    buckets=(1, 2, 4, 8, 16, 32, 64),
    registry=REGISTRY,
)
# The Redis hash in which query workers count, and its fields.
WORKER_COUNTS = "ctp:counts"
CACHE_HITS, CACHE_MISSES, CACHE_EVICTIONS = "model_cache_hits", "model_cache_misses", "model_cache_evictions"
ANSWERED, QUERIES_KILLED = "questions_answered", "queries_killed"
WORKER_FIELDS = {
    CACHE_HITS: "Batches whose model was in memory.",
    CACHE_MISSES: "Batches whose model had to be loaded.",
    CACHE_EVICTIONS: "Models removed from memory to make room for others.",
    ANSWERED: "Questions that query workers answered.",
    QUERIES_KILLED: "Searches that were ended because they took much longer than they may.",
}
