"""Roles: the meaning of every graph input and output.

A role is data: stages dispatch on its type, the verifier counts it, and printing shows it.
Must not know: tracing, FX.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MAY_RAISE = "may_raise"
"""The key in a node's ``meta`` that marks an operator which may refuse its operands' contents.

Whoever makes the torch graph sets it; compilers find it on the nodes that came of that operator in forward, where it
runs though nobody reads its result.
"""


@dataclass(frozen=True, slots=True)
class Primal:
    """A tensor that the caller passes in: a parameter, a buffer or an argument."""

    position: int
    requires_grad: bool
    mutated: bool = False
    parameter: bool = field(default=False, repr=False, compare=False)
    """True for a leaf that requires grad: nobody changes it between forward and backward."""
    reached: bool = field(default=False, repr=False, compare=False)
    """True if autograd comes to it from a result, if only through a function that answers with no gradient."""


@dataclass(frozen=True, slots=True)
class Size:
    """An integer that the caller passes in because it varies between calls."""

    position: int


@dataclass(frozen=True, slots=True)
class AliasBase:
    """The flat storage under several inputs that share memory, one of which is mutated."""

    positions: tuple[int, ...]
    mutated: bool = True


@dataclass(frozen=True, slots=True)
class Tangent:
    """The gradient that arrives for one differentiable output of the forward graph."""

    output: int


@dataclass(frozen=True, slots=True)
class Saved:
    """A tensor that forward computes and backward reads."""

    name: str


@dataclass(frozen=True, slots=True)
class SavedSize:
    """An integer that forward computes and backward reads."""

    name: str


@dataclass(frozen=True, slots=True)
class UpdatedInput:
    """The value that a mutated input holds after the call."""

    input: int
    differentiable: bool


@dataclass(frozen=True, slots=True)
class Result:
    """A tensor from which one or more of the caller's outputs are made."""

    outputs: tuple[int, ...]
    differentiable: bool


@dataclass(frozen=True, slots=True)
class ResultSize:
    """An integer that the caller's outputs, or the views among them, need."""

    name: str


@dataclass(frozen=True, slots=True)
class Gradient:
    """The gradient of one graph input; `tangents` are those that it depends on.

    With `passed`, of a differentiable output that others come from: `input` is its number among the tangents.
    """

    input: int
    tangents: tuple[int, ...]
    passed: bool = False


InputRole = Primal | Size | AliasBase | Tangent | Saved | SavedSize
OutputRole = UpdatedInput | Result | ResultSize | Gradient | Saved | SavedSize
