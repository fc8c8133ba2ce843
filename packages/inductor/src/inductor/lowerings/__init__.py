"""What every operator means, in loop expressions; importing this package fills the table."""

from inductor.lowerings import (
    activations,
    convolution,
    creation,
    fallback,
    foreach,
    indexing,
    norms,
    pointwise,
    pooling,
    products,
    random,
    reductions,
    scans,
    scattering,
    shapes,
    views,
)
from inductor.lowerings.registry import LIBRARY, LOWERINGS, Declined, lowering

__all__ = [
    "LIBRARY",
    "LOWERINGS",
    "Declined",
    "activations",
    "convolution",
    "creation",
    "fallback",
    "foreach",
    "indexing",
    "lowering",
    "norms",
    "pointwise",
    "pooling",
    "products",
    "random",
    "reductions",
    "scans",
    "scattering",
    "shapes",
    "views",
]
