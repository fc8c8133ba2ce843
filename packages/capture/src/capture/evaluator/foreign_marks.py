"""Functions that programs marked for torch's own compiler: what the mark says holds for capture too.

``torch.compiler.disable`` wraps a function in one of torch's and marks that; with ``recursive=False`` it marks the
function itself.  The mark is an attribute, so nothing of torch's compiler has to be imported to see it.
"""

from __future__ import annotations

import os
from types import FunctionType

import torch

from capture import _engine
from capture.origins import TORCH
from capture.reasons import Kind, Reason

MARK = "_torchdynamo_disable"
WHY = "_torchdynamo_disable_msg"
_TRITON = "triton.runtime."
_WRAPPERS = os.path.join(TORCH, "_dynamo") + os.sep
_BY_TORCHS_COMPILER = {(torch.__file__, "compile")} | {
    (os.path.join(TORCH, "_higher_order_ops", f"{name}.py"), name) for name in ("cond", "while_loop", "scan", "map")
}


def is_disabled(function: FunctionType) -> bool:
    """True if the function carries the mark; if so, the engine learns how to run its code."""
    marks = function.__dict__
    if runs_torchs_compiler(function):
        _engine.run_outside(function.__code__)
        return True
    if not marks.get(MARK, False) or _is_a_copy(function):
        return False
    inner = marks.get("_torchdynamo_orig_callable")
    if marks.get("_torchdynamo_disable_recursive", True) is False and isinstance(inner, FunctionType):
        _engine.run_as_is(function.__code__)
        _engine.run_as_is(inner.__code__)
    elif function.__code__.co_filename.startswith(_WRAPPERS) or function.__dict__.get("_wraps_disabled", False):
        _engine.run_outside(function.__code__)
    else:
        _engine.run_as_is(function.__code__)
    return True


def runs_torchs_compiler(function: FunctionType) -> bool:
    """True if torch's compiler does what the function is for: it would take our frames for the program's."""
    if function.__code__.co_filename.startswith(_WRAPPERS):
        return "_torchdynamo_orig_callable" in function.__dict__ and not function.__dict__.get(MARK, False)
    return (function.__code__.co_filename, function.__qualname__) in _BY_TORCHS_COMPILER


def why_disabled(function: object) -> Reason:
    """The reason for ending the graph at a function that was disabled, with the program's own words."""
    marked = getattr(function, "callable", function)
    name = _name(marked)
    said = getattr(function, "__dict__", {}).get(WHY)
    return Reason(Kind.DISABLED, f"`{name}` is disabled{f': {said}' if said else ''}", "remove `disable` to capture it")


def _name(function: object) -> str:
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        return type(owner).__qualname__
    return str(getattr(function, "__qualname__", "a function"))


def is_left_out(function: object) -> bool:
    """True if a program asked, by capture's ``disable`` or by torch's, that the function is not captured."""
    if isinstance(function, _engine.Outside):
        return True
    return isinstance(function, FunctionType) and is_disabled(function)


def is_triton_kernel(function: FunctionType) -> bool:
    """True if a Triton kernel was made of the function, or of the text that its interpreter made this one of."""
    kernel = function.__globals__.get(function.__name__)
    if not str(type(kernel).__module__).startswith(_TRITON):
        return False
    written = getattr(kernel, "fn", None)
    return isinstance(written, FunctionType) and written.__code__.co_filename == function.__code__.co_filename


def starts_triton_kernels(function: FunctionType) -> bool:
    """True if the function is a part of what Triton does to start a kernel of the user's."""
    return str(function.__module__).startswith(_TRITON)


def is_torchs_own(function: FunctionType) -> bool:
    """True if torch's compiler, when it was first used, marked a part of torch's optimizers for itself.

    It says what that compiler cannot capture, and nobody asked for it."""
    inner = function.__dict__.get("_torchdynamo_orig_callable")
    is_part = isinstance(inner, FunctionType) and str(inner.__module__).startswith("torch.optim.")
    return is_part and not _is_a_copy(function)


def _is_a_copy(function: FunctionType) -> bool:
    """True if the marks are another function's, which ``functools.wraps`` copied.

    Those of an optimizer's ``step`` are on what runs its hooks, too.
    """
    return bool(function.__dict__.get("_torchdynamo_wrapper_id", id(function)) != id(function))
