"""The `torch.autograd.Function` that is running its forward, read off Python's frames; and such a function called
again.

Up to torch 2.13 what calls it is a method in Python, whose frame has the class and the arguments; from 2.14 on torch
calls the forward itself, whose frame has them as long as the forward binds none of its parameters anew.
Must not know: graphs.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import CodeType, FrameType
from typing import Any, TypeVar

import torch
from torch.autograd.function import BackwardCFunction

_FUNCTION: Any = torch.autograd.Function
_APPLY: CodeType | None = getattr(getattr(_FUNCTION.apply, "__func__", None), "__code__", None)
_ONCE = torch.autograd.function.once_differentiable(len).__code__
_HAVING_PROGRAMS_RUN: set[CodeType] = set()

F = TypeVar("F", bound=Callable[..., object])


def has_a_program_run(function: F) -> F:
    """Marks a function that runs a traced program: frames above it are none of the program's."""
    _HAVING_PROGRAMS_RUN.add(function.__code__)
    return function


class OwnBackward:
    """Calls a function with a backward of its own once more, for the history that its results have.  ``drew``: they
    depend on random numbers, which would be others the second time."""

    def __init__(self, function: type[torch.autograd.Function]) -> None:
        self._function, self.drew = function, False
        self.__name__ = f"history_of_{function.__name__}"

    def __call__(self, *args: object) -> tuple[Any, ...]:
        given = (each.clone() if isinstance(each, torch.Tensor) else each for each in args)  # it may write to them
        found: Any = self._function.apply(*given)
        return found if isinstance(found, tuple) else (found,)


def callers() -> Iterator[FrameType]:
    """The frames from the caller to the function that runs the program."""
    caller: FrameType | None = sys._getframe(1)
    while caller is not None and caller.f_code not in _HAVING_PROGRAMS_RUN:
        yield caller
        caller = caller.f_back


def is_in_a_function() -> bool:
    """True if autograd is running a function's forward, or a backward that records no history."""
    return outermost_function() is not None or any(caller.f_code is _ONCE for caller in callers())


def outermost_function() -> FrameType | None:
    """The frame of the function whose forward is running; the outer one, where one calls another."""
    forwards = _forwards() if _APPLY is None else {_APPLY: ()}
    return next((caller for caller in reversed(list(callers())) if caller.f_code in forwards), None)


def what_is_called(frame: FrameType) -> tuple[Any, Sequence[Any]] | None:
    """The class and the arguments of the function in a frame, if the frame tells them."""
    known = frame.f_locals
    if _APPLY is not None:
        return None if known["kwargs"] else (known["cls"], known["args"])
    code = frame.f_code
    given = [known.get(name) for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & inspect.CO_VARARGS:
        given += known[code.co_varnames[code.co_argcount + code.co_kwonlyargcount]]
    classes = _forwards()[code]
    if given and isinstance(given[0], BackwardCFunction):
        context: Any = given[0]
        return None if _binds_anew(code) else (context._forward_cls, given[1 : 1 + len(context.needs_input_grad)])
    defaults = any(each.forward.__defaults__ for each in classes)
    return None if len(classes) > 1 or defaults or _binds_anew(code) else (classes[0], given)


def _forwards() -> dict[CodeType, list[Any]]:
    """The code of every forward that exists, and the classes that it belongs to."""
    found: dict[CodeType, list[Any]] = {}
    waiting = [_FUNCTION]
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        code = getattr(cls.forward, "__code__", None)
        if code is not None and cls is not _FUNCTION:
            found.setdefault(code, []).append(cls)
    return found


@cache
def _binds_anew(code: CodeType) -> bool:
    """True if the code may assign to its parameters, so that a frame no longer has the arguments."""
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
    return any(name in code.co_varnames[:count] for name in _bound(code))


def _bound(code: CodeType) -> Iterator[str]:
    """The variables that a function stores to or deletes, itself or in functions that it defines."""
    for each in dis.get_instructions(code):
        first, _, second = each.opname.partition("_FAST_")  # from 3.13 on one instruction may be two
        names = each.argval if isinstance(each.argval, tuple) else (each.argval,)
        if first in _BINDS or each.opname in _BINDS:
            yield names[0]
            if second.startswith("STORE"):
                yield names[1]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from (name for name in _bound(constant) if name in constant.co_freevars)


# An attribute, an item or a global that is stored to is no variable of the function.
_BINDS = frozenset({"STORE", "STORE_FAST", "STORE_DEREF", "STORE_NAME", "DELETE_FAST", "DELETE_DEREF", "DELETE_NAME"})
