"""Decompositions: larger operators written as smaller ones, pure functions in a table, chosen by whoever compiles the
graphs.

`core()` is meant for code generators: what is left are pointwise operators, reductions, views, indexing and the
operators that a library does best (matrix products, convolutions, attention, embedding gradients, dropout).
"""

from collections.abc import Callable
from typing import Any

from aotgrad.decompositions import activations, losses, norms, pointwise, softmax
from aotgrad.decompositions.borrowed import borrowed
from aotgrad.decompositions.registry import OWN
from aotgrad.torch_versions import OpOverload

FAMILIES = (activations, losses, norms, pointwise, softmax)


def own() -> dict[OpOverload, Callable[..., Any]]:
    """The decompositions written here."""
    return dict(OWN)


def core() -> dict[OpOverload, Callable[..., Any]]:
    """The table of our decompositions, and those of torch's that are good as they are."""
    return {**borrowed(), **OWN}


__all__ = ["FAMILIES", "core", "own"]
