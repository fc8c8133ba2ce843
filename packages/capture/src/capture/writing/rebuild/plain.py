"""Leaves: constants, classes, modules, and what the graph computes."""

from __future__ import annotations

from capture.values.base import LazyValue, Value
from capture.values.classes import ClassValue, PythonModuleValue
from capture.values.clock import ClockReading
from capture.values.constant import ConstantValue
from capture.values.function import NamespaceValue
from capture.values.scalar import ScalarValue
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue
from capture.writing.writer import Writer, builds


@builds(ConstantValue)
def build_constant(writer: Writer, value: ConstantValue) -> None:
    writer.emit.load_const(value.value)


@builds(TensorValue, SymbolicNumber, ClockReading)
def build_result(writer: Writer, value: Value) -> None:
    raise AssertionError(f"{value!r} is kept as soon as it is there")


@builds(ScalarValue)
def build_scalar(writer: Writer, value: ScalarValue) -> None:
    emit = writer.emit
    if value.function is not None:
        writer.call_const(value.function, *value.operands)
    else:
        assert value.tensor is not None
        writer.load(value.tensor)
        emit.load_attr("item")
        emit.to_callable()
        emit.call(0)
    emit.copy()
    writer.keep(value, "number")


@builds(LazyValue)
def build_lazy(writer: Writer, value: LazyValue) -> None:
    assert value.source is not None
    writer.load_source(value.source)


@builds(ClassValue)
def build_class(writer: Writer, value: ClassValue) -> None:
    writer.emit.load_const(value.cls)


@builds(PythonModuleValue)
def build_python_module(writer: Writer, value: PythonModuleValue) -> None:
    writer.emit.load_const(value.module)


@builds(NamespaceValue)
def build_namespace(writer: Writer, value: NamespaceValue) -> None:
    writer.call_const(globals)
