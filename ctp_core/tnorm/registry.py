"""The one table of t-norms: the name of a semiring -> its ⊗."""

from ctp_core.tnorm.base import TNorm
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
