"""Arithmetic, comparisons and functions of single elements."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from compile_api.runtimes.onnx.model import Builder, Name, rule
from compile_api.runtimes.onnx.nodes import argument, dtype_of, promoted
from compile_api.torch_versions import aten, schema_of

_UNARY = {
    aten.neg: "Neg", aten.abs: "Abs", aten.exp: "Exp", aten.log: "Log", aten.sqrt: "Sqrt", aten.sigmoid: "Sigmoid",
    aten.reciprocal: "Reciprocal", aten.tanh: "Tanh", aten.sin: "Sin", aten.cos: "Cos", aten.erf: "Erf",
    aten.floor: "Floor", aten.ceil: "Ceil", aten.round: "Round", aten.sign: "Sign", aten.relu: "Relu",
    aten.asin: "Asin", aten.acos: "Acos", aten.atan: "Atan", aten.tan: "Tan", aten.sinh: "Sinh", aten.cosh: "Cosh",
    aten.logical_not: "Not", aten.isnan: "IsNaN", aten.isinf: "IsInf",
}  # fmt: skip
_BINARY = {
    aten.add: "Add", aten.sub: "Sub", aten.mul: "Mul", aten.div: "Div", aten.pow: "Pow",
    aten.maximum: "Max", aten.minimum: "Min",
}  # fmt: skip
_COMPARISONS = {
    aten.eq: "Equal",
    aten.lt: "Less",
    aten.le: "LessOrEqual",
    aten.gt: "Greater",
    aten.ge: "GreaterOrEqual",
}
_TRUTH = {aten.logical_and: "And", aten.logical_or: "Or", aten.logical_xor: "Xor"}


def _overloads(packet: object, *names: str) -> list[Any]:
    return [getattr(packet, name) for name in names if hasattr(packet, name)]


def _unary(operator: str) -> Any:
    def write(b: Builder, node: fx.Node) -> Name:
        # Integers are promoted first, as torch does; ONNX negates truth values only, and its tests of NaN ask about the
        # operand's type.
        inside = dtype_of(node) if operator != "Not" else torch.bool
        if operator in ("IsNaN", "IsInf"):
            inside = dtype_of(node.args[0])
        return b.add(operator, b.of(node.args[0], inside))

    return write


def _binary(operator: str) -> Any:
    def write(b: Builder, node: fx.Node) -> Name:
        left, right = node.args[:2]
        alpha = node.kwargs.get("alpha", 1)
        dtype = dtype_of(node)
        second = b.of(right, dtype)
        # ``add`` and ``sub`` scale their second operand.
        if alpha != 1:
            second = b.add("Mul", second, b.constant(alpha, dtype))
        return b.add(operator, b.of(left, dtype), second)

    return write


def _comparison(operator: str) -> Any:
    def write(b: Builder, node: fx.Node) -> Name:
        left, right = node.args[:2]
        dtype = promoted(left, right)
        # ONNX has no order among truth values.
        if dtype == torch.bool:
            dtype = torch.int32
        return b.add(operator, b.of(left, dtype), b.of(right, dtype))

    return write


def _truth(operator: str) -> Any:
    def write(b: Builder, node: fx.Node) -> Name:
        return b.add(operator, b.of(node.args[0], torch.bool), b.of(node.args[1], torch.bool))

    return write


for _packet, _operator in _UNARY.items():
    rule(_packet.default)(_unary(_operator))
for _packet, _operator in _BINARY.items():
    rule(*_overloads(_packet, "Tensor", "Scalar", "Tensor_Tensor", "Tensor_Scalar", "default"))(_binary(_operator))
for _packet, _operator in _COMPARISONS.items():
    rule(*_overloads(_packet, "Tensor", "Scalar"))(_comparison(_operator))
for _packet, _operator in _TRUTH.items():
    rule(_packet.default)(_truth(_operator))


@rule(aten.bitwise_and.Tensor, aten.bitwise_or.Tensor, aten.bitwise_xor.Tensor)
def bitwise(b: Builder, node: fx.Node) -> Name:
    kind = {"and": "And", "or": "Or", "xor": "Xor"}[str(schema_of(node.target).name).rpartition("_")[2]]
    dtype = dtype_of(node)
    operator = kind if dtype == torch.bool else f"Bitwise{kind}"
    return b.add(operator, b.of(node.args[0], dtype), b.of(node.args[1], dtype))


@rule(aten.bitwise_not.default)
def bitwise_not(b: Builder, node: fx.Node) -> Name:
    return b.add("Not" if dtype_of(node) == torch.bool else "BitwiseNot", b.of(node.args[0]))


@rule(aten.ne.Tensor, aten.ne.Scalar)
def not_equal(b: Builder, node: fx.Node) -> Name:
    return b.add("Not", _comparison("Equal")(b, node))


@rule(aten.rsqrt.default)
def rsqrt(b: Builder, node: fx.Node) -> Name:
    return b.add("Reciprocal", b.add("Sqrt", b.of(node.args[0], dtype_of(node))))


@rule(aten.log1p.default)
def log1p(b: Builder, node: fx.Node) -> Name:
    dtype = dtype_of(node)
    return b.add("Log", b.add("Add", b.of(node.args[0], dtype), b.constant(1, dtype)))


@rule(aten.gelu.default)
def gelu(b: Builder, node: fx.Node) -> Name:
    return b.add("Gelu", b.of(node.args[0]), approximate=node.kwargs.get("approximate", "none"))


@rule(aten.leaky_relu.default)
def leaky_relu(b: Builder, node: fx.Node) -> Name:
    return b.add("LeakyRelu", b.of(node.args[0]), alpha=float(argument(node, 1, "negative_slope", 0.01)))


@rule(aten.clamp.default, aten.hardtanh.default)
def clamp(b: Builder, node: fx.Node) -> Name:
    dtype = dtype_of(node)
    defaults = (-1.0, 1.0) if node.target is aten.hardtanh.default else (None, None)
    low, high = argument(node, 1, "min", defaults[0]), argument(node, 2, "max", defaults[1])
    name = b.of(node.args[0], dtype)
    name = name if low is None else b.add("Max", name, b.constant(low, dtype))
    return name if high is None else b.add("Min", name, b.constant(high, dtype))


@rule(aten.where.self)
def where(b: Builder, node: fx.Node) -> Name:
    condition, left, right = node.args
    return b.add("Where", b.of(condition, torch.bool), b.of(left, dtype_of(node)), b.of(right, dtype_of(node)))


@rule(
    aten.clone.default, aten.alias.default, aten.detach.default, aten.lift_fresh_copy.default, aten.contiguous.default
)
def same(b: Builder, node: fx.Node) -> Name:
    return b.add("Identity", b.of(node.args[0]))


@rule(aten._to_copy.default)
def to_copy(b: Builder, node: fx.Node) -> Name:
    return b.cast(b.of(node.args[0]), dtype_of(node))


@rule(aten.threshold_backward.default)
def threshold_backward(b: Builder, node: fx.Node) -> Name:
    grad, x, threshold = node.args
    dtype = dtype_of(node)
    above = b.add("Greater", b.of(x), b.constant(threshold, dtype_of(x)))
    return b.add("Where", above, b.of(grad, dtype), b.constant(0, dtype))
