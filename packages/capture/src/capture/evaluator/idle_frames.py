"""Frames with no tensor within reach, of which CPython runs the rest once much of their file was evaluated.

To evaluate a frame costs many times what CPython takes to run it, and where no tensor is, nothing is gained.  What a
frame that is left to CPython calls is captured by itself, so all that such a frame can lose is the place where two
graphs would have been one.  What counts is the number of instructions, not the time: the same program is captured in
the same way on every machine.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from itertools import islice
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import torch

from capture.errors import SkipFrame
from capture.evaluator.builtin_rules.torch_functions import OPERATIONS
from capture.guards.sources import Inputs
from capture.reasons import Kind, Reason

_LIBRARY = torch.__name__
_SIMPLE = frozenset({int, float, complex, bool, str, bytes, bytearray, range, slice, type(None), type(...), CodeType})
# What is behind these is captured where it runs, as a frame of its own.
_BY_THEMSELVES = frozenset({FunctionType, BuiltinFunctionType, ModuleType})
_DEPTH, _ITEMS = 3, 64
_MOST_CALLS = 8
MOST_STEPS = 100_000  # some two seconds' worth


class Allowance:
    """The number of instructions of one file that may still be evaluated in vain."""

    def __init__(self, instructions: int) -> None:
        self.left = instructions


class LeftIdle(SkipFrame):
    """CPython runs this call; a later one may have a tensor."""


class Idleness:
    """The allowances of all files."""

    def __init__(self, instructions: int | None) -> None:
        self._instructions = instructions
        self._files: dict[tuple[str, object], Allowance | None] = {}

    def allowance(self, inputs: Inputs) -> Allowance | None:
        """The allowance for this call; None where it may compute a tensor and is evaluated whatever that takes."""
        if self._instructions is None:
            return None
        known = self._files.setdefault(_file(inputs.function), Allowance(self._instructions))
        return None if known is None or reaches_tensors(inputs.function, inputs.args) else known

    def computes(self, function: FunctionType) -> None:
        """Notes that a frame of this file computed a tensor: it is no file to leave alone."""
        if self._instructions is not None:
            self._files[_file(function)] = None


def most_idle_steps(allowance: Allowance | None) -> int:
    """The number of instructions without a tensor after which a call is left to CPython."""
    return MOST_STEPS if allowance is None else min(MOST_STEPS, max(1, allowance.left))


def spend(allowance: Allowance | None, instructions: int) -> None:
    if allowance is not None:
        allowance.left -= instructions


def insist_on_some(allowance: Allowance | None) -> None:
    """Leaves the frame to CPython where nothing is left for its file."""
    if allowance is not None and allowance.left <= 0:
        raise LeftIdle(Reason(Kind.IDLE, "no tensor is within its reach, nor was one in much of its file"))


def leave_at_a_break(allowance: Allowance | None, reason: Reason) -> None:
    """A frame that would go on in pieces is not worth it where there is no tensor."""
    if allowance is not None:
        raise LeftIdle(Reason(Kind.IDLE, f"no tensor is within its reach up to a break ({reason.explanation})"))


def is_left_for_good(calls: int) -> bool:
    """True if so many calls were left to CPython that no later one is looked at."""
    return calls >= _MOST_CALLS


def _file(function: FunctionType) -> tuple[str, object]:
    return function.__code__.co_filename, function.__globals__.get("__name__")  # generated code may have no file


# -- what is within reach ------------------------------------------------------------------------------------------
# Nothing of the program's may run here: its objects are looked at from outside.


def reaches_tensors(function: FunctionType, args: Iterable[object]) -> bool:
    """True if a call might compute a tensor by itself, as far as can be seen from its arguments and global names."""
    if _LIBRARY in function.__code__.co_names or any(map(_is_of_the_library, list(function.__globals__.values()))):
        return True
    return any(may_hold_tensors(held, _DEPTH) for held in (*args, *(function.__closure__ or ())))


def _is_of_the_library(value: object) -> bool:
    """True for a name that leads to torch, or to a tensor."""
    kind = type(value)
    if kind in _SIMPLE:
        return False
    if kind is ModuleType:
        return _is_its_name(ModuleType.__getattribute__(value, "__dict__").get("__name__"))
    if kind is FunctionType:
        return _is_its_name(value.__module__)
    if id(value) in OPERATIONS or kind in (torch.dtype, torch.device):
        return True
    return _is_tensor_class(value) if type in kind.__mro__ else may_hold_tensors(value, 1)


def _is_its_name(name: object) -> bool:
    return type(name) is str and name.partition(".")[0] == _LIBRARY


def _is_tensor_class(kind: object) -> bool:
    mro = type.__getattribute__(kind, "__mro__")
    return torch.Tensor in mro or torch.nn.Module in mro


def may_hold_tensors(obj: object, depth: int) -> bool:
    """True if there is a tensor or a module among the first things that an object leads to."""
    kind = type(obj)
    if kind in _SIMPLE or kind in _BY_THEMSELVES or type in type.__getattribute__(kind, "__mro__"):
        return False
    if _is_tensor_class(kind):
        return True
    return depth > 0 and any(may_hold_tensors(item, depth - 1) for item in islice(_held_by(obj, kind), _ITEMS))


def _held_by(obj: Any, kind: type) -> Iterable[object]:
    if kind is dict:
        return list(islice(obj.values(), _ITEMS))
    return gc.get_referents(obj)  # of lists, too: within an object of C's they may have empty places
