"""Torch's functions and methods: which go into the graph, which answer now, and which end it."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch.autograd.profiler import record_function

from capture import state
from capture.evaluator.builtin_rules.registry import fold, rule
from capture.evaluator.world import World
from capture.guards.kinds import GuardKind
from capture.guards.sources import AttrSource, ConstSource
from capture.reasons import Kind
from capture.recording.python_kernels import leave_what_reads_changes
from capture.recording.tensor_queries import QUESTIONS, answer_of, rely_on_where_it_begins
from capture.torch_versions import (
    DisableTorchFunctionSubclass,
    OpOverload,
    OpOverloadPacket,
    TensorBase,
    VariableFunctions,
    fft,
    get_dispatch_mode,
    get_privateuse1_backend_name,
    get_tracing_state,
    is_view,
    len_torch_dispatch_stack,
    linalg,
    log_api_usage_once,
    nn,
    sparse,
    special,
)
from capture.values.base import Tracer, Value, realize, root_package
from capture.values.classes import ClassValue
from capture.values.constant import FALSE, NONE, TRUE, ConstantValue, boolean, is_none
from capture.values.context import (
    ProfilerRange,
)
from capture.values.sequence import SequenceValue
from capture.values.tensor import TensorValue
from capture.values.user_object import UserObject

# -- what is recorded --------------------------------------------------------------------------------------------

_FUNCTION_MODULES = (nn, linalg, fft, special, sparse)
"""Namespaces of functions in C: everything in them is an operation."""
_PYTHON_MODULES = ("torch.functional", "torch.nn.functional", "torch._lowrank")
# Functions of those modules that take functions, draw state from Python, or do nothing to tensors.
_NOT_OPERATIONS = frozenset({"boolean_dispatch", "handle_torch_function", "has_torch_function", "assert_int_or_pair"})


def _named_operations() -> dict[tuple[ModuleType, str], object]:
    """Torch's own operations by the names under which they are found.

    Every builtin of the variable namespace and its kin.
    """
    # Under the names that programs use: ``torch.add`` is in ``torch`` though C keeps it elsewhere.
    found = [(torch, name, getattr(torch, name)) for name in dir(VariableFunctions) if hasattr(torch, name)]
    for module in _FUNCTION_MODULES:
        found += [(module, name, value) for name, value in vars(module).items() if callable(value)]
    for module in (torch.nn.functional, torch.functional, torch.linalg, torch.fft, torch.special):
        found += [(module, name, value) for name, value in vars(module).items() if _is_operation(name, value)]
    return {(home, name): function for home, name, function in found if _is_of_torch(function)}


def _is_of_torch(function: object) -> bool:
    """True for a function of torch's own.

    One that a program put there is not, nor what torch's modules import: ``typing.Optional`` can be called, too.
    """
    return callable(function) and not isinstance(function, type) and root_package(function) == "torch"


def _operations() -> dict[int, list[tuple[ModuleType, str]]]:
    """The names under which each operation is found."""
    # By ``id``, as some of them are not hashable; ``_NAMED`` keeps them alive, so that no other object gets one's
    # number.
    homes: dict[int, list[tuple[ModuleType, str]]] = {}
    for place, function in _NAMED.items():
        homes.setdefault(id(function), []).append(place)
    return homes


def _is_operation(name: str, value: object) -> bool:
    """True for a function in one of torch's modules whose call is one node of the graph."""
    if name in _NOT_OPERATIONS or isinstance(value, type) or not callable(value):
        return False
    return not isinstance(value, FunctionType) or value.__module__ in (*_PYTHON_MODULES, "torch._jit_internal")


_NAMED = _named_operations()
OPERATIONS = _operations()
_OVERLOADS = (OpOverload, OpOverloadPacket)


def is_operation(function: Any) -> bool:
    """True if a call is one node of the graph."""
    process = state.PROCESS
    # What the program said comes first, in both directions.
    if id(function) in process.disallowed:
        return False
    return id(function) in OPERATIONS or id(function) in process.allowed or isinstance(function, _OVERLOADS)


def rely_on_names(ctx: Tracer, function: object) -> None:
    """Relies on the names under which an operation is found, and on those that its code looks up.

    What runs a graph may look functions up by their names, and torch's functions in Python do so among themselves:
    where a program has put others there, it runs as in eager.
    """
    # A function that was replaced before it was captured is one the graph would not call; one replaced later fails the
    # guard.
    for path, home, original in _names_behind(function):
        if vars(home).get(path.name) is not original:
            explanation = f"`{home.__name__}.{path.name}` is another function now"
            ctx.stop(Kind.REPLACED_FUNCTION, explanation, "it runs as in eager")
        ctx.guard(path, GuardKind.IS, original)


@cache
def _names_behind(function: object) -> list[tuple[AttrSource, ModuleType, object]]:
    """The names of a function, and those of operations that its code calls."""
    found: dict[tuple[ModuleType, str], Any] = {}
    # Functions in Python call others by name, which call others: all of these may be replaced.
    waiting = [function]
    while waiting:
        each = waiting.pop()
        for home, name in OPERATIONS.get(id(each), ()):
            found[home, name] = each
        for name in each.__code__.co_names if isinstance(each, FunctionType) else ():
            homes = (torch, nn, torch.nn.functional)
            called = [_NAMED[home, name] for home in homes if (home, name) in _NAMED]
            waiting += [one for one in called if not any(one is known for known in found.values())]
    return [
        (AttrSource(ConstSource(home, home.__name__), name), home, original) for (home, name), original in found.items()
    ]


def record_operations(ctx: World, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """The family of torch's functions that go into the graph as they are."""
    name = getattr(function, "__name__", "")
    # Questions about memory and layout, of which fakes do not know the answer: asked of the real tensor, with a guard.
    if name in QUESTIONS and args and isinstance(asked := args[0], TensorValue) and len(args) == 1 and not kwargs:
        answer = answer_of(ctx, asked, name)
        if not isinstance(answer, torch.SymInt):
            return ctx.literal(answer)
        return _tensor_method(ctx, function, args, kwargs)  # computed from sizes that vary, by the graph
    rely_on_where_it_begins(ctx, name, args)
    if is_operation(function):
        rely_on_names(ctx, function)
        leave_what_reads_changes(ctx, function)
        return ctx.record(function, args, kwargs)
    if args and isinstance(args[0], TensorValue):
        return _tensor_method(ctx, function, args, kwargs)
    return None


def _tensor_method(ctx: World, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """A method of tensors, recorded by its name where it is torch's own."""
    name = getattr(function, "__name__", "")
    # Not what the name stands for now: the program's own, or torch's that was replaced.
    if getattr(torch.Tensor, name, None) is not function:
        if getattr(TensorBase, name, None) is function:
            ctx.stop(Kind.REPLACED_FUNCTION, f"`torch.Tensor.{name}` is another function now", "it runs as in eager")
        return None
    reason = _READS_VALUES.get(name)
    if reason is not None:
        ctx.stop(
            Kind.TENSOR_VALUE,
            f"`.{name}()` of {args[0].describe()} {reason}",
            "keep the value a tensor, or read it at the end",
        )
    # Of an input it changes the program's own tensor, which a graph cannot do; of a tensor made here it is an
    # operation.
    switches = name == "requires_grad_" and args[0].source is not None
    if switches and _requires_grad_already(ctx, args, kwargs):
        return args[0]
    if name in _UNTRACKED or switches:
        hint = "it runs when and as in eager; the rest of the function is captured"
        # CPython has to make the view itself, not only call the method: the graph would make another one.
        if name in _OF_GRADIENTS and _is_a_view_that_others_come_from(args[0]):
            ctx.note_origin(args[0])
            ctx.stop_before(args[0], Kind.AUTOGRAD, f"a view is made of which `.{name}()` is called later", hint)
        ctx.stop(Kind.AUTOGRAD, f"`.{name}()` of a tensor is called", hint)
    return ctx.record(name, args, kwargs, method=True)


def _is_a_view_that_others_come_from(value: Value) -> bool:
    """True for a view from which tensors of the graph were computed already.

    A graph makes it again beside them, so that their gradients would not come by it.
    """
    made = isinstance(value, TensorValue) and value.source is None and value.fake.requires_grad
    return made and bool(value.node.users) and is_view(value.fake)  # type: ignore[attr-defined]


def _requires_grad_already(ctx: World, args: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """True if ``requires_grad_`` changes nothing."""
    tensor, wanted = args[0], [*args[1:], *kwargs.values(), TRUE][0]
    if not (isinstance(tensor, TensorValue) and isinstance(wanted, ConstantValue)):
        return False
    if tensor.fake.requires_grad is not wanted.value:
        return False
    # A view whose base got to want gradients later says that it does, and gets none before it is asked to.
    return not (wanted.value and answer_of(ctx, tensor, "_is_view") and tensor.attribute(ctx, "is_leaf").truth(ctx))


_READS_VALUES = {
    "numpy": "leaves torch",
    "__array__": "leaves torch",
    "__bool__": "decides a branch",
    "__int__": "reads a number out of a tensor",
    "__float__": "reads a number out of a tensor",
    "__index__": "reads a number out of a tensor",
    "data_ptr": "reads an address",
    "const_data_ptr": "reads an address",
    "untyped_storage": "is about its memory",
    "storage": "is about its memory",
    "storage_type": "is about its memory",
    "_typed_storage": "is about its memory",
    "is_set_to": "is about its memory",
    "is_shared": "is about its memory",
    "is_pinned": "is about its memory",
    "__repr__": "is turned into text",
    "__format__": "is turned into text",
}
"""Methods whose answer is not in the graph: the name, and what it does for the sentence of the break."""
_OF_GRADIENTS = frozenset({"register_hook", "retain_grad"})
"""Methods that see a gradient arrive; with ``_UNTRACKED`` those that change a tensor besides its contents."""
_UNTRACKED = _OF_GRADIENTS | {"register_post_accumulate_grad_hook", "share_memory_"}


@rule(torch.Tensor.dim, torch.Tensor.ndimension, kinds=(TensorValue,))
def dimensions(ctx: Tracer, tensor: TensorValue) -> Value:
    return ConstantValue(tensor.fake.dim())


@rule(torch.Tensor.size, kinds=(TensorValue,))
def size(ctx: Tracer, tensor: TensorValue, dim: Value | None = None) -> Value:
    sizes = tensor.shape(ctx)
    return sizes if dim is None or is_none(dim) else ctx.call_builtin(operator.getitem, [sizes, dim], {})


@rule(torch.Tensor.is_floating_point, torch.is_floating_point, kinds=(TensorValue,))
def is_floating_point(ctx: Tracer, tensor: TensorValue) -> Value:
    return boolean(tensor.fake.is_floating_point())


@rule(torch.Tensor.is_complex, torch.is_complex, kinds=(TensorValue,))
def is_complex(ctx: Tracer, tensor: TensorValue) -> Value:
    return boolean(tensor.fake.is_complex())


@rule(torch.is_tensor, kinds=(None,))
def is_tensor(ctx: Tracer, value: Value) -> Value:
    return boolean(isinstance(value, TensorValue))


@rule(torch.overrides.is_tensor_like, kinds=(None,))
def is_tensor_like(ctx: Tracer, value: Value) -> Value:
    return ctx.call_builtin(hasattr, [value, ConstantValue("__torch_function__")], {})


@rule(torch.Tensor.__len__, kinds=(TensorValue,))
def tensor_length(ctx: Tracer, value: TensorValue) -> Value:
    return ctx.call_builtin(len, [value], {})


@rule(torch.Tensor.__hash__, kinds=(TensorValue,))
def tensor_hash(ctx: Tracer, value: TensorValue) -> Value:
    ctx.stop(Kind.IDENTITY, "a tensor is hashed", "use another key")


@rule(torch.Tensor.__format__, str, repr, format, kinds=(TensorValue,))
def tensor_text(ctx: Tracer, value: TensorValue, *rest: Value) -> Value:
    ctx.stop(
        Kind.TENSOR_VALUE, f"{value.describe()} is turned into text", "print shapes, or print after the compiled part"
    )


@rule(torch.Tensor.new_tensor, kinds=(TensorValue, TensorValue))
@rule(torch.tensor, torch.as_tensor, kinds=(TensorValue,))
def copy_of_tensor(ctx: Tracer, value: TensorValue, *rest: Value, **options: Value) -> Value:
    # ``torch.tensor(t)`` warns, and copies without a history.
    ctx.stop(Kind.TENSOR_VALUE, "a tensor is made from another tensor's values", "use clone().detach()")


@rule(torch.Tensor.as_subclass, kinds=(TensorValue, ClassValue))
def as_plain_tensor(ctx: Tracer, value: TensorValue, cls: ClassValue) -> Value:
    if cls.cls is not torch.Tensor:
        ctx.stop(Kind.TENSOR_SUBCLASS, f"a tensor is made one of {cls.describe()}")
    return ctx.record(torch.ops.aten.alias.default, [value], {})


@rule(torch.Size)
def make_size(ctx: Tracer, items: Value | None = None) -> Value:
    made = ctx.call_builtin(tuple, [] if items is None else [items], {})
    if not all(realize(ctx, item).python_type() is int for item in made.elements(ctx)):
        ctx.stop(Kind.CONTAINER, "a `torch.Size` is made of other things than integers")
    made.cls = torch.Size  # type: ignore[attr-defined]
    return made


@rule(torch.Tensor.new, kinds=(TensorValue,))
def legacy_new(ctx: Tracer, like: TensorValue, *args: Value, **options: Value) -> Value:
    """``Tensor.new``: it takes a size for sizes and any other tuple for data, and a graph's sizes are tuples."""
    sizes = realize(ctx, args[0]) if len(args) == 1 else None
    if sizes is not None and sizes.python_type() is torch.Size:
        return ctx.record("new_empty", [like, sizes], options, method=True)
    return ctx.record("new", [like, *args], options, method=True)


@rule(torch.Size.numel, kinds=(None,))
def size_numel(ctx: Tracer, size: Value) -> Value:
    total: Value = ConstantValue(1)
    for item in size.elements(ctx):
        total = ctx.call_builtin(operator.mul, [total, item], {})
    return total


# -- markers -----------------------------------------------------------------------------------------------------


def _answer(value: Value) -> Callable[..., Value]:
    def constant_answer(ctx: Tracer, *args: Value, **kwargs: Value) -> Value:
        return value

    return constant_answer


# Eager's answers are the right ones.
for _function in (
    torch.jit.is_scripting,
    torch.jit.is_tracing,
    get_tracing_state,
):
    rule(_function)(_answer(NONE if _function is get_tracing_state else FALSE))
if hasattr(torch.compiler, "is_exporting"):
    rule(torch.compiler.is_exporting)(_answer(FALSE))
if get_privateuse1_backend_name:
    rule(get_privateuse1_backend_name)(_answer(ConstantValue(get_privateuse1_backend_name())))


@rule(torch.overrides.has_torch_function_unary, torch.overrides.has_torch_function_variadic)
def has_torch_function(ctx: World, *args: Value) -> Value:
    """True if an operand has a ``__torch_function__``.

    Tensors of subclasses do not come into graphs; other objects may have one.
    """
    others = (arg for arg in args if not isinstance(realize(ctx, arg), (TensorValue, ConstantValue)))
    return boolean(any(is_tensor_like(ctx, each).truth(ctx) for each in others))


@rule(torch.overrides.has_torch_function, kinds=(SequenceValue,))
def any_has_torch_function(ctx: World, args: SequenceValue) -> Value:
    return has_torch_function(ctx, *args.elements(ctx))


@rule(DisableTorchFunctionSubclass)
def without_subclasses(ctx: Tracer) -> Value:
    """The context in which torch's own code computes with plain tensors; programs may use those of subclasses."""
    if not ctx.in_library():
        ctx.stop(Kind.CONTEXT, "code of tensor subclasses is switched off")
    return ctx.call(ctx.literal(contextlib.nullcontext), [])


@rule(record_function)
def profiler_range(ctx: Tracer, name: Value, args: Value = NONE) -> Value:
    return ProfilerRange(name, args)


@rule(record_function.__exit__, kinds=(UserObject, None, None, None))
def end_profiler_range(ctx: World, entered: UserObject, *exception: Value) -> Value:
    """Ends a range that was entered before this graph, after it."""
    ctx.commit()
    ctx.effects.calls.append((record_function.__exit__, (entered, NONE, NONE, NONE)))
    return NONE


# Capture's own modes are not the program's.
rule(get_dispatch_mode)(_answer(NONE))  # frames under a mode are not evaluated
rule(len_torch_dispatch_stack)(_answer(ConstantValue(0)))
rule(log_api_usage_once)(_answer(NONE))


def torch_constants(ctx: Tracer, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """The family of small questions about dtypes and devices that torch answers in C."""
    name = getattr(function, "__name__", "")
    if root_package(function) == "torch" and name in ("promote_types", "result_type", "can_cast", "type"):
        return fold(ctx, function, args, kwargs)
    return None
