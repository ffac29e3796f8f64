"""Area under the precision-recall curve, as average precision."""

import numpy as np
from jaxtyping import Bool, Float


def auc_pr(scores: Float[np.ndarray, " example"], true: Bool[np.ndarray, " example"]) -> float:
    """Σ (recall_i - recall_{i-1}) · precision_i over the distinct scores; equal scores are one threshold."""
    order = np.argsort(-scores, kind="stable")
    scores, true = scores[order], true[order]
    thresholds = np.append(np.flatnonzero(np.diff(scores)), len(scores) - 1)
    found = np.cumsum(true)[thresholds]
    precision, recall = found / (thresholds + 1), found / true.sum()
    return float((np.diff(recall, prepend=0.0) * precision).sum())
