"""Real objects to values: a table by type.  Each rule guards exactly what its value then takes for granted."""

from __future__ import annotations

import collections
import contextvars
import enum
import functools
import inspect
import itertools
import re
import sys
import weakref
from collections.abc import Iterator
from types import (
    BuiltinFunctionType,
    CellType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
    TracebackType,
)
from typing import Any, Protocol

import torch

from capture._engine import Outside, Region
from capture.errors import SkipFrame
from capture.evaluator.world import World
from capture.evaluator.wrap_containers import wrap_container_object, wrap_tuple_subclass
from capture.evaluator.wrap_rules import RULES, Rule, symbol_for, wraps
from capture.guards.kinds import GuardKind
from capture.guards.sources import (
    ArgSource,
    AttrSource,
    ConstSource,
    GlobalSource,
    ItemSource,
    KeySource,
    Source,
    TypeSource,
)
from capture.operators.triton_kernels.launches import is_host_function, is_kernel
from capture.reasons import Kind, Reason
from capture.recording.fakes import is_unaware_of_its_history
from capture.recording.histories import insist_on_unchanged_neighbours
from capture.torch_versions import OpOverload, OpOverloadPacket, is_functorch_wrapped_tensor
from capture.values.base import (
    LazyValue,
    Tracer,
    Value,
    leads_through_fixed_code,
    may_be_replaced,
    module_name,
    trusted,
)
from capture.values.classes import ClassValue, PythonModuleValue, SuperValue
from capture.values.constant import UNBOUND, ConstantValue
from capture.values.context_var import ContextVarValue
from capture.values.exception import ExceptionValue
from capture.values.exception_group import ExceptionGroupValue
from capture.values.function import BoundMethod, BuiltinValue, CellValue, FunctionValue, NamespaceValue
from capture.values.iterator import OutsideIterator
from capture.values.lock import LOCK, RLOCK, LockValue
from capture.values.module import ModuleValue
from capture.values.own_methods import metaclass_runs_code
from capture.values.partial import partial_found
from capture.values.scalar import ScalarValue
from capture.values.scripted import ScriptedValue
from capture.values.sequence import SliceValue
from capture.values.slots import has_code_for
from capture.values.tensor import TensorValue
from capture.values.triton_kernel import HostFunction, KernelValue
from capture.values.user_object import UserObject, instance_dict


def wrap_object(ctx: World, obj: object, source: Source) -> Value:
    """The value of ``obj``; the caller keeps one value per object where identity matters."""
    rule = RULES.get(type(obj)) or _by_ancestry(obj)
    return rule(ctx, obj, source)


def _by_ancestry(obj: object) -> Rule:
    for cls, rule in _FALLBACKS:
        if issubclass(type(obj), cls):  # isinstance would ask the object, too
            return rule
    return wrap_of_triton if is_kernel(obj) or is_host_function(obj) else wrap_user_object


# -- immutable objects -------------------------------------------------------------------------------------------


@wraps(float)
def wrap_float(ctx: World, obj: float, source: Source) -> Value:
    if not ctx.is_dynamic_float(source):
        return wrap_constant(ctx, obj, source)
    ctx.effects.locks.note_read(source)
    ctx.guard(source, GuardKind.TYPE, float)
    return ScalarValue(float, source=source, now=obj)


@wraps(complex, str, bytes, bool, type(None), type(...), type(NotImplemented))
def wrap_constant(ctx: World, obj: object, source: Source) -> Value:
    ctx.guard(source, GuardKind.EQUALS, obj)
    return ConstantValue(obj, source)


@wraps(torch.dtype, torch.device, torch.layout, torch.memory_format, range, frozenset)
def wrap_plain_data(ctx: World, obj: object, source: Source) -> Value:
    """A constant that is compared by value: which of two equal ones it is cannot be told but by ``is``."""
    ctx.guard(source, GuardKind.EQUALS, obj)
    return ConstantValue(obj, source)


@wraps(int)
def wrap_int(ctx: World, obj: int, source: Source) -> Value:
    dynamic = ctx.is_dynamic(source)
    if dynamic and source not in ctx.graph.inputs and ctx.effects.locks.is_holding():
        # Python's own number: as a symbol it would be read before the graph, and the lock be held as long.
        ctx.effects.locks.note_read(source)
        ctx.guard(source, GuardKind.TYPE, int)
        return ScalarValue(int, source=source, now=obj)
    if obj in (0, 1) or not dynamic:  # 0 and 1 mean too much to be any number
        return wrap_constant(ctx, obj, source)
    ctx.guard(source, GuardKind.TYPE, int)
    return symbol_for(ctx, obj, source)


@wraps(contextvars.ContextVar)
def wrap_context_var(ctx: World, obj: contextvars.ContextVar[object], source: Source) -> Value:
    ctx.guard(source, GuardKind.IS, obj)
    return ContextVarValue(obj, source)


@wraps(contextvars.Token)
def wrap_token(ctx: World, obj: contextvars.Token[object], source: Source) -> Value:
    """A token, another one every time; nothing is asked of it but what it is."""
    ctx.guard(source, GuardKind.TYPE, contextvars.Token)
    return UserObject(contextvars.Token, obj, source)


@wraps(CodeType, re.Pattern, re.Match, torch.torch_version.TorchVersion)
def wrap_fixed_object(ctx: World, obj: object, source: Source) -> Value:
    """An object that never changes: which one it is says everything."""
    ctx.guard(source, GuardKind.IS, obj)
    return ConstantValue(obj, source)


def wrap_enum(ctx: World, obj: enum.Enum, source: Source) -> Value:
    """A member of an enum, by its identity: its class may have an ``__eq__`` of its own."""
    ctx.guard(source, GuardKind.IS, obj)
    return ConstantValue(obj, source)


@wraps(slice)
def wrap_slice(ctx: World, obj: slice, source: Source) -> Value:
    """A slice, made anew wherever it is written: relied on are those of its parts that are asked for."""
    ctx.guard(source, GuardKind.TYPE, slice)
    start, stop, step = (LazyValue(getattr(obj, name), AttrSource(source, name)) for name in ("start", "stop", "step"))
    return SliceValue(start, stop, step)


# -- tensors -----------------------------------------------------------------------------------------------------


def wrap_tensor(ctx: World, obj: torch.Tensor, source: Source) -> Value:
    """An input of the graph, where its fake says all that operators may ask of it.

    CPython runs what has such tensors as no fake can stand for, because their memory, class or history mean something
    else.
    """
    if type(obj) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        ctx.stop(Kind.TENSOR_SUBCLASS, f"{source.expression()} is a {type(obj).__qualname__}, a subclass of Tensor")
    ordinary = obj.layout is torch.strided and not (obj.is_quantized or obj.is_nested or obj.is_neg())
    if not ordinary or obj._is_zerotensor() or any(getattr(obj, "names", ())) or is_functorch_wrapped_tensor(obj):
        ctx.stop(Kind.TENSOR_LAYOUT, f"{source.expression()} is not an ordinary strided tensor")
    if is_unaware_of_its_history(obj):
        ctx.stop(Kind.AUTOGRAD, f"{source.expression()} is a view, and what it views got a history since")
    layout = ctx.open_layout(source, obj)
    try:
        fake = ctx.graph.fake_input(obj, source, layout)
    except RuntimeError as error:  # a view of what has a gradient of another shape, or no history that torch can tell
        ctx.stop(Kind.TENSOR_ATTRIBUTE, f"torch makes no fake tensor of {source.expression()}: {error}")
    except AssertionError:  # torch compares the fake with a view whose `data` was replaced
        ctx.stop(
            Kind.TENSOR_ATTRIBUTE, f"torch makes no fake tensor of {source.expression()}, which is unlike what it views"
        )
    node = ctx.graph.add_input(source, fake)
    # None is a size that varies: its own guards say later what the program relied on of it.
    sizes = tuple(None if dim in layout.sizes else size for dim, size in enumerate(obj.shape))
    strides = ctx.graph.strides_relied_on(fake, obj)
    bits = (_BITS if obj.dtype.is_complex else _BITS_OF_REALS)[obj.is_conj()]
    ctx.guard(source, GuardKind.TENSOR, type(obj), obj.dtype, obj.device, obj.requires_grad, sizes, strides, bits)
    value = TensorValue(node, fake, source, type(obj))
    value.obj = obj
    # A backward within the graph that would come to this step goes on beyond what was captured.
    if fake.grad_fn is not None:
        ctx.graph.arrived[id(fake)] = (value, fake.grad_fn)
    insist_on_unchanged_neighbours(ctx, value)
    return value


_BITS_OF_REALS = ((("is_neg", False), ("_is_zerotensor", False)),)
_BITS = tuple((*_BITS_OF_REALS[0], ("is_conj", conjugated)) for conjugated in (False, True))
"""Bits that a tensor's memory does not show and a kernel that reads it must know.

Of complex numbers by whether they are conjugated, which real ones are not.
"""


# -- callables ---------------------------------------------------------------------------------------------------


def same_object(ctx: World, obj: object, source: Source) -> Source:
    """Guards the identity of ``obj``; what is trusted is afterwards found without the path."""
    fixed = trusted(obj)
    looked_up = not (fixed and leads_through_fixed_code(source)) and not isinstance(source, TypeSource)
    if looked_up or may_be_replaced(ctx, source, obj):
        ctx.guard(source, GuardKind.IS, obj)
    return ConstSource(obj, getattr(obj, "__qualname__", source.expression())) if fixed else source


@wraps(FunctionType)
def wrap_function(ctx: World, obj: FunctionType, source: Source) -> Value:
    rely_on_identity = None
    # Guarding such a function by identity would make a version for each call.
    if _is_made_for_a_call(obj, source):
        _rely_on_code(ctx, obj, source)
        rely_on_identity = functools.partial(ctx.guard, source, GuardKind.IS, obj)
    else:
        source = same_object(ctx, obj, source)
    defaults = [
        LazyValue(item, ItemSource(AttrSource(source, "__defaults__"), i))
        for i, item in enumerate(obj.__defaults__ or ())
    ]
    keyword_defaults = {
        name: LazyValue(item, KeySource(AttrSource(source, "__kwdefaults__"), name))
        for name, item in (obj.__kwdefaults__ or {}).items()
    }
    cells = []
    # Wrapped as objects: functions that share a cell share its value, so that a write by one shows in the other.
    for index, cell in enumerate(obj.__closure__ or ()):
        found = ctx.wrap(cell, ItemSource(AttrSource(source, "__closure__"), index))
        assert isinstance(found, CellValue)
        cells.append(found)
    namespace = namespace_of(ctx, obj, source)
    return FunctionValue(
        obj.__code__,
        namespace,
        qualname=obj.__qualname__,
        defaults=defaults,
        keyword_defaults=keyword_defaults,
        closure=cells,
        function=obj,
        source=source,
        rely_on_identity=rely_on_identity,
    )


def _is_made_for_a_call(obj: FunctionType, source: Source) -> bool:
    """True for an argument that is likely to be another function of the same code in the next call.

    It is defined in a function, or has no name.
    """
    made_again = ("<locals>" in obj.__qualname__ or "<lambda>" in obj.__qualname__) and vars(obj).keys() <= {
        "__wrapped__"
    }
    return made_again and isinstance(source.root(), ArgSource) and not trusted(obj)


def _rely_on_code(ctx: World, obj: FunctionType, source: Source) -> None:
    """Relies on all of a function that a call goes by, but not on which function it is."""
    ctx.guard(source, GuardKind.TYPE, FunctionType)
    ctx.guard(AttrSource(source, "__code__"), GuardKind.IS, obj.__code__)
    ctx.guard(AttrSource(source, "__dict__"), GuardKind.KEYS, tuple(vars(obj)))
    for name in ("__defaults__", "__kwdefaults__", "__closure__"):
        held = getattr(obj, name)
        if held is None:
            ctx.guard(AttrSource(source, name), GuardKind.EQUALS, None)
        else:
            ctx.guard(AttrSource(source, name), GuardKind.LENGTH, len(held))
    # The globals live as long as the code; to hold them would keep their module alive.
    text = f"{source.expression()} is of its module"
    ctx.guard(AttrSource(source, "__globals__"), GuardKind.AT, id(obj.__globals__), text=text)


def namespace_of(ctx: World, function: FunctionType, source: Source) -> NamespaceValue:
    """The globals of a function, one value for all that share them."""
    module = sys.modules.get(module_name(function))
    is_fixed = module is not None and vars(module) is function.__globals__ and trusted(module)
    # By way of the module, functions of one file share a path, and what is fixed needs no guard.
    path = (
        AttrSource(ConstSource(module, module_name(function)), "__dict__")
        if is_fixed
        else AttrSource(source, "__globals__")
    )
    return ctx.namespace(function.__globals__, path, trusted=is_fixed)


@wraps(CellType)
def wrap_cell(ctx: World, obj: Any, source: Source) -> Value:
    try:
        content: Value = LazyValue(obj.cell_contents, AttrSource(source, "cell_contents"))
    except ValueError:
        ctx.guard(AttrSource(source, "cell_contents"), GuardKind.ABSENT)
        content = UNBOUND
    return CellValue(content, source)


@wraps(MethodType)
def wrap_method(ctx: World, obj: MethodType, source: Source) -> Value:
    ctx.guard(source, GuardKind.TYPE, MethodType)
    receiver = ctx.wrap(obj.__self__, AttrSource(source, "__self__"))
    return BoundMethod(receiver, ctx.wrap(obj.__func__, AttrSource(source, "__func__")))


class _Super(Protocol):
    """A ``super``, whose class and object no stub knows."""

    __thisclass__: type
    __self__: object


@wraps(super)
def wrap_super(ctx: World, obj: _Super, source: Source) -> Value:
    """The value of a ``super()`` made elsewhere: given to a continuation, or handed on by the program."""
    ctx.guard(source, GuardKind.TYPE, super)
    if obj.__self__ is None:
        ctx.stop(Kind.SUPER, f"{source.expression()} is a `super` without an object")
    ctx.guard(AttrSource(source, "__thisclass__"), GuardKind.IS, obj.__thisclass__)
    return SuperValue(obj.__thisclass__, ctx.wrap(obj.__self__, AttrSource(source, "__self__")))


@wraps(functools.partial)
def wrap_partial(ctx: World, obj: functools.partial[object], source: Source) -> Value:
    """A partial: the number and names of its arguments are relied on, and each of them where it is used."""
    ctx.guard(source, GuardKind.TYPE, functools.partial)
    ctx.guard(AttrSource(source, "args"), GuardKind.LENGTH, len(obj.args))
    if not all(type(name) is str for name in obj.keywords):
        ctx.stop(Kind.CALL, f"a keyword of {source.expression()} is not a `str`", "use a `str`")
    args = [LazyValue(item, ItemSource(AttrSource(source, "args"), i)) for i, item in enumerate(obj.args)]
    return partial_found(ctx, obj, source, args)


@wraps(torch.jit.ScriptFunction)
def wrap_scripted(ctx: World, obj: object, source: Source) -> Value:
    ctx.guard(source, GuardKind.IS, obj)
    return ScriptedValue(type(obj), obj, source)


@wraps(Region)
def wrap_region(ctx: World, obj: Region, source: Source) -> Value:
    """A captured function that captured code calls is part of it."""
    ctx.guard(source, GuardKind.TYPE, Region)
    return ctx.wrap(obj.function, AttrSource(source, "function"))


@wraps(Outside)
def wrap_outside(ctx: World, obj: Outside, source: Source) -> Value:
    ctx.guard(source, GuardKind.IS, obj)
    return BuiltinValue(obj, source)


@wraps(ModuleType)
def wrap_python_module(ctx: World, obj: ModuleType, source: Source) -> Value:
    if has_code_for(type(obj), "__getattribute__"):
        # Whatever is read from it is an answer of the program's own code.
        return wrap_user_object(ctx, obj, source)
    return PythonModuleValue(obj, same_object(ctx, obj, source))


def wrap_class(ctx: World, obj: type, source: Source) -> Value:
    """A class, by its identity; what evaluation asks of its members is guarded when it asks."""
    if not trusted(obj) and not all(type(name) is str for name in vars(obj)):
        ctx.stop(Kind.CLASS, f"{source.expression()} is a class with members under objects, which compare by code")
    return ClassValue(obj, same_object(ctx, obj, source))


def _has_values(owner: object) -> bool:
    """True if a method's receiver is evaluated: reading the method from it makes another object every time."""
    return (
        type(owner) in RULES or isinstance(owner, (torch.Tensor, torch.autograd.graph.Node)) or _is_passing(type(owner))
    )


def wrap_builtin(ctx: World, obj: Any, source: Source) -> Value:
    # Bound methods made in C are new objects each time they are read, so which one it is says nothing; what can be
    # relied on is the receiver, and the name.
    owner = getattr(obj, "__self__", None)
    if isinstance(owner, type) and not trusted(owner):
        method = inspect.getattr_static(owner, obj.__name__, None)
        if isinstance(method, ClassMethodDescriptorType):  # reading it from its class makes another object every time
            ctx.guard(source, GuardKind.TYPE, type(obj))
            ctx.guard(AttrSource(source, "__name__"), GuardKind.EQUALS, obj.__name__)
            return BuiltinValue(method, receiver=ctx.wrap(owner, AttrSource(source, "__self__")))
    if owner is None or isinstance(owner, (ModuleType, type)) or (trusted(obj) and not _has_values(owner)):
        return BuiltinValue(obj, same_object(ctx, obj, source))
    name = obj.__name__
    ctx.guard(source, GuardKind.TYPE, type(obj))
    ctx.guard(AttrSource(source, "__name__"), GuardKind.EQUALS, name)
    receiver = ctx.wrap(owner, AttrSource(source, "__self__"))
    return receiver.attribute(ctx, name)


@wraps(LOCK, RLOCK)
def wrap_lock(ctx: World, obj: object, source: Source) -> Value:
    """A lock, whichever it is."""
    ctx.guard(source, GuardKind.TYPE, type(obj))
    return LockValue(type(obj), obj, source)


# -- iterators ---------------------------------------------------------------------------------------------------


_MADE_IN_C: tuple[Iterator[Any], ...] = (
    iter([]),
    reversed([]),
    iter(()),
    iter(""),
    iter(b""),
    iter(range(0)),
    iter(set()),
    iter(int, 1),
)
_OF_DICTS: tuple[Any, ...] = ({}.keys(), {}.values(), {}.items(), collections.OrderedDict().items())


@wraps(*(type(iterator) for iterator in _MADE_IN_C), *(type(iter(view)) for view in _OF_DICTS))
@wraps(*(type(reversed(view)) for view in _OF_DICTS), type(iter(range(1 << 64))), type(iter(collections.deque())))
@wraps(zip, enumerate, map, filter, reversed, GeneratorType)
@wraps(*(cls for cls in vars(itertools).values() if isinstance(cls, type) and hasattr(cls, "__next__")))
def wrap_iterator(ctx: World, obj: object, source: Source) -> Value:
    ctx.guard(source, GuardKind.TYPE, type(obj))
    return OutsideIterator(type(obj), source)


@wraps(TracebackType)
def wrap_traceback(ctx: World, obj: TracebackType, source: Source) -> Value:
    """A traceback, another one every time; it is only ever handed on."""
    ctx.guard(source, GuardKind.TYPE, TracebackType)
    return UserObject(TracebackType, obj, source)


# -- objects -----------------------------------------------------------------------------------------------------


def wrap_module(ctx: World, obj: torch.nn.Module, source: Source) -> Value:
    ctx.guard(source, GuardKind.TYPE, type(obj))
    return ModuleValue(type(obj), obj, source)


def wrap_exception(ctx: World, obj: BaseException, source: Source) -> Value:
    """An exception, another one every time: its class is relied on, and the rest when it is looked at."""
    ctx.guard(source, GuardKind.TYPE, type(obj))
    kind = ExceptionGroupValue if issubclass(type(obj), BaseExceptionGroup) else ExceptionValue
    return kind(type(obj), (), obj, source)


def wrap_user_object(ctx: World, obj: object, source: Source) -> Value:
    ctx.guard(source, GuardKind.TYPE, type(obj))
    if instance_dict(obj) is None and trusted(type(obj)) and _is_opaque(type(obj)) and not _is_passing(type(obj)):
        ctx.guard(source, GuardKind.IS, obj)  # opaque: all that is known of it is which one it is
    return UserObject(type(obj), obj, source)


def wrap_of_triton(ctx: World, obj: object, source: Source) -> Value:
    ctx.guard(source, GuardKind.IS, obj)
    return (KernelValue if is_kernel(obj) else HostFunction)(type(obj), obj, source)


def _is_opaque(cls: type) -> bool:
    """True for a type made in C, of which nothing is known but what its rules say."""
    return cls.__flags__ & (1 << 9) == 0 and cls is not weakref.ref


def _is_passing(cls: Any) -> bool:
    """True for objects to which nothing can refer weakly, so that a guard would keep them for good.

    Such are an iterator and what it goes over, a step of autograd's and all that it saved.
    """
    return cls.__weakrefoffset__ == 0 and (hasattr(cls, "__next__") or issubclass(cls, torch.autograd.graph.Node))


def skip_frame_of_metaclass(ctx: Tracer, obj: object, source: Source) -> None:
    """Leaves the frame to CPython where code of the program sees that a class is only looked at.

    Where such an object is met an instruction may be under way that cannot end a graph.
    """
    if metaclass_runs_code(obj):
        explanation = f"{source.expression()} has a metaclass whose code runs where a class is only looked at"
        raise SkipFrame(Reason(Kind.CLASS, explanation), location=ctx.location())


_FALLBACKS: tuple[tuple[Any, Rule], ...] = (
    (torch.Tensor, wrap_tensor),
    (torch.nn.Module, wrap_module),
    (enum.Enum, wrap_enum),
    (type, wrap_class),
    (ModuleType, wrap_python_module),
    (BaseException, wrap_exception),
    (tuple, wrap_tuple_subclass),
    ((dict, list, set, collections.deque), wrap_container_object),
    (
        (BuiltinFunctionType, type(len), type(str.join), type(object.__init__), type({}.__contains__)),
        wrap_builtin,
    ),
    ((OpOverload, OpOverloadPacket, functools._lru_cache_wrapper), wrap_builtin),
)


def global_source(namespace: NamespaceValue, name: str) -> Source:
    """The path of a global of ``namespace``: the frame's own by name, another module's through its dict."""
    if namespace.source is None:
        return GlobalSource(name)
    return KeySource(namespace.source, name)
