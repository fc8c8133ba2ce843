"""Functions, cells, methods and partials."""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable

import torch
import torch.func

from capture.values.classes import ClassValue, SuperValue
from capture.values.constant import NONE, UNBOUND, ConstantValue, is_none
from capture.values.context import TorchContext
from capture.values.function import BoundMethod, BuiltinValue, CellValue, FunctionValue
from capture.values.made_class import MemberValue
from capture.values.partial import PartialValue
from capture.values.tensor import TensorMethod
from capture.values.transform import TransformValue
from capture.values.triton_kernel import LaunchValue
from capture.writing.rebuild.contexts import CONTEXT_METHODS
from capture.writing.writer import Writer, builds


@builds(FunctionValue)
def build_function(writer: Writer, value: FunctionValue) -> None:
    emit = writer.emit
    emit.load_callable(types.FunctionType)
    emit.load_const(value.code)
    # The frame's own globals: `globals()` of the code that is written, or another module's by its path.
    writer.load(value.namespace)
    emit.load_const(value.code.co_name)
    # As ``FunctionType`` takes them: None where there are none.
    for parts in (value.defaults, value.closure):
        if parts:
            emit.build_tuple(writer.load_all(parts))
        else:
            emit.load_const(None)
    emit.call(5)
    # Kept before its attributes are set: one of them may refer to the function.
    emit.copy()
    writer.keep(value, "function")
    # All others are set on the function, and only where there are some: None and an empty dict are told apart.
    writable: dict[str, Callable[[], None]] = {}
    if value.keyword_defaults:
        pairs = [part for name, item in value.keyword_defaults.items() for part in (ConstantValue(name), item)]
        writable["__kwdefaults__"] = lambda: emit.build_map(writer.load_all(pairs) // 2)
    if value.annotations:
        writable["__annotations__"] = lambda: emit.build_map(writer.load_all(value.annotations) // 2)
    for name, attribute in value.attributes.items():
        writable[name] = functools.partial(writer.load, attribute)
    for name, load in writable.items():
        emit.copy()
        load()
        emit.swap(2)
        emit.store_attr(name)


@builds(CellValue)
def build_cell(writer: Writer, value: CellValue) -> None:
    # The cell exists before its content: a recursive function's cell holds the function that holds the cell.
    emit = writer.emit
    emit.load_callable(types.CellType)
    emit.call(0)
    writer.keep(value, "cell")
    if value.content is not UNBOUND:
        writer.load(value.content)
        writer.load(value)
        emit.store_attr("cell_contents")
    writer.load(value)


@builds(BoundMethod)
def build_method(writer: Writer, value: BoundMethod) -> None:
    writer.call_const(types.MethodType, value.function, value.receiver)


@builds(BuiltinValue)
def build_builtin(writer: Writer, value: BuiltinValue) -> None:
    # An object of C's that outlives every frame.
    if value.receiver is None:
        writer.emit.load_const(value.function)
    elif isinstance(value.receiver, TorchContext):
        writer.load(value.receiver)
        writer.emit.load_attr(CONTEXT_METHODS[value.function.__name__])
    else:
        # By the function, never by its name: the receiver's class may have overridden what ``super()`` found.
        if isinstance(value.function, types.ClassMethodDescriptorType):
            writer.call_const(value.function.__get__, NONE, value.receiver)
        elif is_none(value.receiver):  # to `__get__` it says that there is no object
            writer.call_const(getattr, NONE, ConstantValue(value.function.__name__))
        elif hasattr(value.function, "__objclass__"):
            # With the class: some methods made in C look at it without asking whether it was given.
            cls = ClassValue(value.receiver.python_type())
            writer.call_const(value.function.__get__, value.receiver, cls)
        else:
            writer.call_const(functools.partial(types.MethodType, value.function), value.receiver)


@builds(TensorMethod)
def build_tensor_method(writer: Writer, value: TensorMethod) -> None:
    writer.load(value.owner)
    writer.emit.load_attr(value.name)


@builds(PartialValue)
def build_partial(writer: Writer, value: PartialValue) -> None:
    emit = writer.emit
    emit.load_callable(functools.partial)
    count = writer.load_all([value.function, *value.args, *value.kwargs.values()])
    emit.call_kw(count, tuple(value.kwargs))
    emit.copy()
    writer.keep(value, "partial")


@builds(TransformValue)
def build_transformed(writer: Writer, value: TransformValue) -> None:
    writer.call_const(functools.partial(getattr(torch.func, value.name), **value.options), value.function)


@builds(LaunchValue)
def build_launch(writer: Writer, value: LaunchValue) -> None:
    writer.call_const(operator.getitem, value.kernel, value.grid)


@builds(MemberValue)
def build_member(writer: Writer, value: MemberValue) -> None:
    writer.call_const(value.kind, *value.functions)


@builds(SuperValue)
def build_super(writer: Writer, value: SuperValue) -> None:
    writer.emit.load_callable(super)
    writer.emit.load_const(value.cls)
    writer.load(value.receiver)
    writer.emit.call(2)
