"""Finalizers: whether somebody notices that a variable which is not read any more is let go.

A break hands over what the rest of a function reads.  In CPython a frame keeps the others, too, until it returns: a
temporary directory that is deleted with its object, a view that keeps its buffer from growing, a class that its bases
know, a module that its hooks refer to weakly. Tensors, numbers and code are let go at once: nothing but memory hangs on
them.
"""

from __future__ import annotations

import enum
import gc
import sys
from collections.abc import Collection
from types import AsyncGeneratorType, CodeType, CoroutineType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

import torch

from capture.bytecode.flow import acts_when_closed
from capture.bytecode.instructions import Body
from capture.errors import SkipFrame
from capture.guards.kinds import GuardKind
from capture.guards.sources import ArgSource, AttrSource, ClosureSource, Source
from capture.reasons import Kind, Reason
from capture.values.autograd_leaves import is_leaf
from capture.values.base import LazyValue, Tracer, Value, module_name, reachable, realize, settled
from capture.values.classes import ClassValue
from capture.values.function import CellValue
from capture.values.generator import SuspendableValue
from capture.values.iterator import IteratorValue, OutsideIterator
from capture.values.mapping import DictValue
from capture.values.sequence import SequenceValue, SetValue
from capture.values.slots import has_code_for
from capture.values.tensor import TensorValue
from capture.values.user_object import UserObject

_QUIET = (
    *(type(None), bool, int, float, complex, str, bytes, range, slice, enum.Enum),
    *(FunctionType, MethodType, ModuleType, CodeType, type(len)),
    *(torch.Tensor, torch.dtype, torch.device, torch.layout, torch.memory_format),
)
_CONTAINERS = (list, tuple, dict, set, frozenset, torch.Size)
_CONTAINER_KINDS = (SequenceValue, DictValue, SetValue)
_MADE_OF_OTHERS = (SequenceValue, DictValue, SetValue, UserObject, CellValue, IteratorValue, SuspendableValue)
# Limits to the search, which only asks what is likely to be there: a container of thousands of items has alike ones.
_LONGEST = 64
_MOST = 1000
_CODE = {GeneratorType: "gi_code", CoroutineType: "cr_code", AsyncGeneratorType: "ag_code"}
_NAME = vars(type)["__name__"]  # read past metaclasses, which may have code of their own for it


def end_is_noticed(value: Value, shown: Collection[Value]) -> bool:
    """True if a value is, or is made of, an object whose end may do something.

    That is one from outside, or one that is ``shown`` to the outside, as an operand of what CPython runs.
    """
    todo, seen = [value], set[int]()
    while todo:
        value = settled(todo.pop())
        if id(value) in seen:
            continue
        seen.add(id(value))
        # The instruction may hand it to anybody.
        if isinstance(value, UserObject) and value in shown:
            return True
        if isinstance(value, LazyValue) or (isinstance(value, UserObject) and value.obj is not None):
            if _end_of_object_is_noticed(value.obj):
                return True
        elif _is_under_way(value) or (isinstance(value, ClassValue) and not _is_held_by_its_module(value.cls)):
            return True
        elif value.source is None and isinstance(value, _MADE_OF_OTHERS):
            todo += value.parts()
    return False


def _is_under_way(value: Value) -> bool:
    """True for a generator that does something when it is closed, or may do so once the instruction has run."""
    if not isinstance(value, SuspendableValue):
        return isinstance(value, OutsideIterator)
    return not value.finished and (not value.started or acts_when_closed(value.frame.current.handler))


def has_history(value: Value) -> bool:
    """True if a value is, or holds, a tensor that was computed from others which want gradients."""
    return any(_has_steps(each) for each in reachable([value]))


def _has_steps(value: Value) -> bool:
    value = settled(value)
    tensor = value.fake if isinstance(value, TensorValue) else getattr(value, "obj", None)
    return isinstance(tensor, torch.Tensor) and tensor.requires_grad and not is_leaf(tensor)


def require_quiet_end(ctx: Tracer, value: Value) -> None:
    """Leaves a frame to CPython if it unbinds an argument that may end there, running code of the program."""
    value = settled(value)
    if not _may_be_the_last(value.source):
        return
    obj = _object_of(ctx, value)
    if isinstance(value, (LazyValue, UserObject)) and has_code_for(type(obj), "__del__"):
        raise SkipFrame(
            Reason(Kind.FINALIZER, f"an object of class `{type(obj).__qualname__}` may end here, with its `__del__`")
        )
    if holds_suspended(obj):
        raise SkipFrame(
            Reason(Kind.GENERATOR, f"{value.describe()} ends here, and with it a generator that is under way")
        )
    _rely_on_what_it_is(ctx, value, obj)


def require_quiet_pop(ctx: Tracer, value: Value) -> None:
    """Breaks where CPython takes from the stack what an earlier break left there, and code runs at its end."""
    source = settled(value).source
    if isinstance(source, ArgSource) and source.name.startswith("."):
        obj = _object_of(ctx, value)
        if holds_suspended(obj) and not isinstance(obj, BaseException):  # which is being handled still
            ctx.stop(Kind.GENERATOR, f"{value.describe()} ends here, and with it a generator that is under way")
        _rely_on_what_it_is(ctx, settled(value), obj)


def require_quiet_change(ctx: Tracer, value: Value) -> None:
    """Breaks the graph where a container from outside changes that holds a generator under way: it may be let go."""
    if value.source is not None and isinstance(value, _CONTAINER_KINDS):
        held = gc.get_referents(_object_of(ctx, value))
        if any(type(each) in _CODE and _acts_when_closed(each) for each in held):
            ctx.stop(Kind.GENERATOR, f"{value.describe()} changes, which holds a generator that is under way")


def require_quiet_attribute(ctx: Tracer, owner: Value, name: str) -> None:
    """Breaks where an attribute is assigned or deleted, and code runs at the end of what it was."""
    if owner.source is not None and isinstance(owner, UserObject):
        held = None
        if type(owner.obj).__dictoffset__:
            held = object.__getattribute__(owner.obj, "__dict__").get(name)
        if type(held) in _CODE and _acts_when_closed(held):
            ctx.stop(Kind.GENERATOR, f"`{name}` of {owner.describe()} changes, a generator that is under way")


def _object_of(ctx: Tracer, value: Value) -> object:
    """The real object of an argument, or of a part of one."""
    if isinstance(value, (LazyValue, UserObject)):
        return value.obj
    assert value.source is not None
    try:
        return value.source.read(ctx.inputs)
    except (AttributeError, LookupError, TypeError, ValueError):
        return None


def _rely_on_what_it_is(ctx: Tracer, value: Value, obj: object) -> None:
    """Guards the code of a suspended generator, on which it depends whether its end does something."""
    code = _CODE.get(type(obj))
    if code is not None and value.source is not None:
        realize(ctx, value)
        ctx.guard(AttrSource(value.source, code), GuardKind.IS, getattr(obj, code))


def holds_suspended(obj: object) -> bool:
    """True if an object is, or refers to, a suspended generator or coroutine that does something when it is closed."""
    todo, seen = [obj], set[int]()
    while todo and len(seen) < _MOST:
        obj = todo.pop()
        if id(obj) in seen or issubclass(type(obj), (*_QUIET, type)):
            continue
        seen.add(id(obj))
        if type(obj) in _CODE and _acts_when_closed(obj):
            return True
        todo += gc.get_referents(obj)
    return False


def _acts_when_closed(generator: object) -> bool:
    """True if a real generator waits under a handler that would run: its instruction is found by ``f_lasti``."""
    frame = getattr(generator, _CODE[type(generator)].replace("code", "frame"))
    if frame is None or frame.f_lasti < 0:
        return False
    body = Body.from_code(frame.f_code).instructions
    return any(each.offset == frame.f_lasti and acts_when_closed(each.handler) for each in body)


def _may_be_the_last(source: Source | None) -> bool:
    """True if a variable may be all that refers to what the path leads to: an argument, a cell, part of a temporary."""
    if source is None or isinstance(source, (ArgSource, ClosureSource)):
        return source is not None
    root = source.root()
    is_content = isinstance(source, AttrSource) and source.name == "cell_contents"
    return isinstance(root, ArgSource) and (is_content or root.name.startswith("."))


def _end_of_object_is_noticed(obj: Any) -> bool:
    """True if the end of a real object may do something, or that of an item of a builtin container."""
    if not _is_noisy(obj) or not any(type(obj) is kind for kind in _CONTAINERS):
        return _is_noisy(obj)
    items = list(obj.values()) if type(obj) is dict else list(obj)
    return any(_is_noisy(item) for item in items[:_LONGEST])


def _is_noisy(obj: Any) -> bool:
    if issubclass(type(obj), type):  # ``isinstance`` would ask a ``__class__``, which may be code of its own
        return not _is_held_by_its_module(obj)
    return not issubclass(type(obj), _QUIET)


def _is_held_by_its_module(cls: type) -> bool:
    """True for a class that its module holds by its name: it does not end when a variable lets go of it."""
    module = sys.modules.get(module_name(cls))
    return module is not None and vars(module).get(_NAME.__get__(cls)) is cls
