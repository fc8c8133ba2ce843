"""Calls that say something and change nothing: deprecations, remarks, and what the program lets be said later.

Libraries say that something is deprecated; who serves programs that were written for another compiler makes remarks.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeGuard

import torch

from capture import state
from capture.errors import Location
from capture.evaluator.builtin_rules.registry import rule
from capture.evaluator.world import World
from capture.informing import filter_for
from capture.program_settings import program_settings
from capture.reasons import Kind
from capture.silence import looking, raised, raised_if_due, silenced
from capture.torch_versions import DisableTorchDispatch
from capture.values.base import Value, realize
from capture.values.classes import ClassValue
from capture.values.constant import NONE, ConstantValue
from capture.values.tensor import TensorValue
from capture.values.user_object import UserObject


class Listener(Protocol):
    """An object that hears remarks, and says them on."""

    def hear(self, text: str, where: Location | None) -> None:
        """``where`` is the program's line, if the code that makes the remark is being captured."""


def remark(listener: Listener, text: str) -> None:
    """Has ``listener`` hear of a call that means nothing to capture.

    In captured code it hears while that is captured, and the graph goes on.
    """
    listener.hear(text, None)


@rule(remark)
def remark_while_captured(ctx: World, listener: Value, text: Value) -> Value:
    heard_by = realize(ctx, listener)
    if not isinstance(heard_by, UserObject) or heard_by.obj is None:
        return ctx.stop(Kind.VALUE, "a remark is made to what was made here")
    heard_by.obj.hear(text.constant(), calling_place(ctx))
    return NONE


@dataclass(slots=True)
class Notice:
    """A warning that compiled code gives whenever the program's would."""

    text: str
    category: type[Warning]
    where: Location
    registry: dict[Any, Any] = field(default_factory=dict)  # what Python remembers of a line that warned

    def __call__(self) -> None:
        warnings.warn_explicit(
            self.text, self.category, self.where.filename, self.where.line, registry=self.registry
        )  # fmt: skip

    def would_raise(self) -> bool:
        """True if the filters that hold now make an error of it."""
        module = os.path.splitext(self.where.filename)[0]
        decides = filter_for(self.text, self.category, module, self.where.line)
        return decides is not None and decides.action == "error"


@rule(warnings.warn)
def warn_of_what_is_deprecated(
    ctx: World, message: Value, category: Value = NONE, stacklevel: Value = NONE, *rest: Value, **more: Value
) -> Value:
    """``warnings.warn``, where a library says at every call that something is deprecated.

    What its function does has nothing to do with that, so the warning is given after the graph.
    """
    kind = category.constant() if isinstance(category, (ConstantValue, ClassValue)) else None
    text = message.constant() if isinstance(message, ConstantValue) else None
    if not _is_deprecation(kind) or type(text) is not str or not ctx.in_library():
        hint = "move the call out of the compiled function"
        return ctx.stop(Kind.WARNING, f"`warnings.warn` is called on {message.describe()}", hint)
    _give(ctx, Notice(text, kind, calling_place(ctx)))
    return NONE


def _give(ctx: World, notice: Notice) -> None:
    """Has the written code give the notice, after the graph."""
    if notice.would_raise():
        ctx.stop(Kind.WARNING, f"a warning is an error: {notice.text}")
    ctx.effects.calls.append((notice, ()))


def noticed(ctx: World, make: Callable[[], object]) -> Any:
    """The object that ``make`` gives of a library's; what the library says of it is said at every call."""
    try:
        with raised():
            return make()
    except Warning as warning:
        _give(ctx, Notice(str(warning), type(warning), ctx.frames[-1].location()))
    with silenced():
        return make()


_WARNING: Mapping[str, Callable[[torch.Tensor], object]] = {
    "float": float,
    "create_graph": lambda leaf: leaf.clone().backward(create_graph=True, inputs=[leaf]),
}
"""What torch warns of from C++, as a function of a leaf."""


def warn_as_torch_does(ctx: World, what: str) -> None:
    """Has the written code give a warning that torch gives from C++, as often as torch does."""
    try:
        with raised():
            _with_a_leaf(what)
    except Warning as warning:
        where = calling_place(ctx)
        if Notice(str(warning), type(warning), where).would_raise():
            ctx.stop(Kind.WARNING, f"a warning is an error: {warning}")
        ctx.effects.calls.append((tell_as_torch_does, tuple(map(ConstantValue, (what, where.filename, where.line)))))


def tell_as_torch_does(what: str, filename: str, line: int) -> None:
    """Gives the warning at a line of the program; torch counts it as given, and gives it once unless told otherwise."""
    given = state.PROCESS.warned_as_torch_does
    if what in given and not torch.is_warn_always_enabled():
        return
    given.add(what)
    try:
        with raised_if_due():
            _with_a_leaf(what)
    except Warning as warning:
        warnings.warn_explicit(warning, type(warning), filename, line, registry=state.PROCESS.places_that_warned)


def _with_a_leaf(what: str) -> None:
    with DisableTorchDispatch(), looking(), torch.enable_grad():
        _WARNING[what](torch.ones((), device="cpu", requires_grad=True))


def _is_deprecation(kind: object) -> TypeGuard[type[Warning]]:
    return isinstance(kind, type) and issubclass(kind, (DeprecationWarning, FutureWarning))


def say_later(ctx: World, function: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """The family of calls that the program lets be made behind the graph; of tensors they see what they hold then."""
    allowed = program_settings().said_later
    if not allowed or kwargs or not any(function is each for each in allowed):
        return None
    if not all(isinstance(arg, (ConstantValue, TensorValue)) for arg in args):
        return None
    ctx.commit()
    ctx.effects.calls.append((function, tuple(args)))
    return NONE


def calling_place(ctx: World) -> Location:
    """The line of the program that called what says something: beyond the files of who says it, and of libraries."""
    home = os.path.dirname(ctx.frames[-1].code.co_filename)
    while_within = (frame for frame in reversed(ctx.frames) if not _is_of(frame, home))
    found: Location = next(while_within, ctx.frames[0]).location()
    return found


def _is_of(frame: Any, home: str) -> bool:
    return frame.function.namespace.trusted or os.path.dirname(frame.code.co_filename) == home
