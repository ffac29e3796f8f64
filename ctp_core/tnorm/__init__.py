"""⊗, how the parts of one proof make its score, one file for each. A new one is a file here and a line in TNORMS.

How the scores of several proofs become one (⊕) is in `ctp_core.aggregations`.
"""

from ctp_core.tnorm.base import DistanceTimes, TNorm
from ctp_core.tnorm.lukasiewicz import Lukasiewicz
from ctp_core.tnorm.mean import Mean
from ctp_core.tnorm.minimum import Minimum
from ctp_core.tnorm.product import Product

TNORMS: dict[str, TNorm] = {
    Minimum.name: Minimum(),
    Product.name: Product(),
    Mean.name: Mean(),
    Lukasiewicz.name: Lukasiewicz(),
}

__all__ = ["TNORMS", "DistanceTimes", "TNorm"]
