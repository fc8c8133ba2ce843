"""What every operator means, in loop expressions; importing this package fills the table."""

from inductor.lowerings import creation, fallback, foreach, indexing, norms, pointwise, reductions, shapes, views
from inductor.lowerings.registry import LIBRARY, LOWERINGS, Declined, lowering

__all__ = [
    "LIBRARY",
    "LOWERINGS",
    "Declined",
    "creation",
    "fallback",
    "foreach",
    "indexing",
    "lowering",
    "norms",
    "pointwise",
    "reductions",
    "shapes",
    "views",
]
