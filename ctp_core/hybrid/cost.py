"""What training a hybrid costs: its parts, one after the other, and the choice of the weights between them."""

from collections.abc import Mapping

from ctp_core.base.cost import PROCESS_BYTES, Forecast
from ctp_core.hybrid.config import CHOOSING_FACTS, CHOOSING_LOGITS
from ctp_core.kb.profile import Profile

LOGIT_BYTES = 24.0  # of two parts and their sum
WAITING = 0.3  # of its memory: what a part keeps while another is trained


def one_after_the_other(parts: Mapping[str, Forecast], profile: Profile) -> Forecast:
    """The seconds of all parts; the largest memory, with what the other parts keep while they wait."""
    peaks = sorted((part.peak_bytes for part in parts.values()), reverse=True)
    logits = LOGIT_BYTES * min(CHOOSING_LOGITS, CHOOSING_FACTS * profile.num_entities)
    waiting = sum(WAITING * max(0.0, peak - PROCESS_BYTES) for peak in peaks[1:])
    seconds = sum(part.cpu_seconds for part in parts.values())
    basis = "; ".join(f"{name}: {part.basis}" for name, part in parts.items())
    return Forecast(seconds, int(peaks[0] + waiting + logits), basis)
