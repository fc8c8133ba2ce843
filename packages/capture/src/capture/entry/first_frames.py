"""The frame that a call of a compiled callable begins: its own, or that of a function which does nothing but call it.

The hook sees frames of Python code, and leaves some files' alone (``left_alone``).  What is written in C begins none,
and what torch or the standard library wrote one that is passed by; who compiles such a callable means that call all
the same.  This must not know what the call computes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType, MethodType

import torch

from capture._engine import Region
from capture.entry.left_alone import is_captured, passes_on
from capture.evaluator.foreign_marks import is_left_out


def with_a_frame(target: Callable[..., object]) -> Callable[..., object]:
    """A callable whose call begins a frame that the hook looks at: ``target`` itself, or a function that calls it.

    It is ``target`` where nobody is to look at it, too.
    """
    first = _begun_by(target)
    if is_left_out(first) or (isinstance(first, FunctionType) and _is_looked_at(first)):
        return target
    return _calling(target, first)


def called_from_a_frame(function: object) -> object | None:
    """The callable that was given to ``with_a_frame``; None for a function that it did not make."""
    if isinstance(function, FunctionType) and function.__globals__ is globals():
        return function.__dict__.get("__wrapped__")
    return None


def _begun_by(target: object) -> object:
    """The function whose frame comes first in a call; an object that is no function begins none."""
    if isinstance(target, functools.partial):
        return _begun_by(target.func)
    if isinstance(target, MethodType | staticmethod):
        return _begun_by(target.__func__)
    if isinstance(target, Region):
        return _begun_by(target.function)
    if isinstance(target, FunctionType) or is_left_out(target):
        return target
    called = inspect.getattr_static(type(target), "__call__", None)
    if isinstance(called, FunctionType) and passes_on(called.__code__) and isinstance(target, torch.nn.Module):
        inner = _begun_by(target.forward)
        return called if isinstance(inner, FunctionType) else inner  # torch's own forwards pass on modules of programs
    return called


def _is_looked_at(function: FunctionType) -> bool:
    """True if the hook evaluates a frame of this function, or what it passes on to."""
    code = function.__code__
    return is_captured(code, str(function.__globals__.get("__name__"))) or passes_on(code)


def _calling(target: Callable[..., object], first: object) -> FunctionType:
    """A function that does nothing but call the target, with code of its own and the target's name and place."""
    call = lambda *args, **kwargs: target(*args, **kwargs)  # noqa: E731 - one line, which is where it is said to be
    assert isinstance(call, FunctionType)
    # Versions are kept, and counted, by code: each has its own.
    filename, line = _place(target, first)
    name = _name_of(target)
    call.__code__ = call.__code__.replace(co_filename=filename, co_firstlineno=line, co_name=name, co_qualname=name)
    call.__name__ = call.__qualname__ = name
    vars(call)["__wrapped__"] = target
    return call


def _name_of(target: object) -> str:
    if isinstance(target, functools.partial):
        return _name_of(target.func)
    return str(getattr(target, "__name__", type(target).__name__))


def _place(target: object, first: object) -> tuple[str, int]:
    """The place that records say: that of the program's code that a decorator was given, or nowhere in a file."""
    written = inspect.unwrap(first) if isinstance(first, FunctionType) else None
    if isinstance(written, FunctionType) and _is_looked_at(written):
        return written.__code__.co_filename, written.__code__.co_firstlineno
    return f"<call of {_name_of(target)}>", 1
