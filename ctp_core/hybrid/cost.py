"""What training a hybrid costs: both parts, one after the other, and the choice of the weights between them."""

from ctp_core.base.cost import PROCESS_BYTES, Forecast
from ctp_core.hybrid.config import CHOOSING_FACTS, CHOOSING_LOGITS
from ctp_core.kb.profile import Profile

LOGIT_BYTES = 24.0  # of both parts and their sum
WAITING = 0.3  # of its memory: what a part keeps while the other is trained


def one_after_the_other(proofs: Forecast, embedding: Forecast, profile: Profile) -> Forecast:
    """The seconds of both parts; the larger memory, with what the other part keeps while it waits."""
    larger, smaller = max(proofs.peak_bytes, embedding.peak_bytes), min(proofs.peak_bytes, embedding.peak_bytes)
    logits = LOGIT_BYTES * min(CHOOSING_LOGITS, CHOOSING_FACTS * profile.num_entities)
    peak = int(larger + WAITING * max(0.0, smaller - PROCESS_BYTES) + logits)
    seconds = proofs.cpu_seconds + embedding.cpu_seconds
    return Forecast(seconds, peak, f"proofs: {proofs.basis}; embedding: {embedding.basis}")
