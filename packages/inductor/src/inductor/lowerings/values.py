"""Tensors while a graph is lowered: their sizes, and one element as an expression over their axes.

Axis ``d`` of a tensor is the symbol ``i<d>`` with that size, so two tensors of one shape speak of the same symbols and
combine without any renaming.  A dimension of size 1 has no symbol: its index is 0, which is what makes broadcasting
cheap.  A view is a substitution; nothing is copied until somebody needs memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch

from inductor import costs
from inductor.ir.expr import Apply, Const, Expr, IndexValue, Load, apply, cast, rewrite, substitute, walk
from inductor.ir.index import ONE, ZERO, Index, Symbol, loop_variable
from inductor.ir.program import Buffer
from inductor.lowerings.sizes import numel

HALF = (torch.float16, torch.bfloat16)
EIGHTHS = (torch.float8_e4m3fn, torch.float8_e5m2)
"""Dtypes that kernels on GPUs read into single precision; releases of torch differ in how they round to them."""
NARROW = HALF + EIGHTHS
COMPUTED = frozenset((
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool, torch.int64, torch.int32, torch.int16,
    torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8,
))  # fmt: skip
"""The dtypes that expressions have."""
DEVICES = frozenset(("cpu", "cuda"))
"""The types of devices that kernels run on."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """``expr`` is one element in the dtype arithmetic uses (float32 for half types).  ``base`` names the buffer whose
    memory the tensor is a window on, and is None for a value that has no memory of its own yet."""

    sizes: tuple[Index, ...]
    dtype: torch.dtype
    device: torch.device
    expr: Expr
    base: str | None = None

    @property
    def ndim(self) -> int:
        return len(self.sizes)

    @property
    def numel(self) -> Index:
        return numel(self.sizes)


@lru_cache(maxsize=4096)
def axis(dim: int, size: Index) -> Symbol:
    """The symbol of axis ``dim``."""
    return loop_variable(f"i{dim}", size)


def positions(sizes: Sequence[Index]) -> tuple[Index, ...]:
    """The index of the current element along each axis; 0 along axes of size 1."""
    return tuple(ZERO if size == ONE else Index.of(axis(dim, size)) for dim, size in enumerate(sizes))


def axes(sizes: Sequence[Index]) -> tuple[Symbol, ...]:
    """The symbols a tensor of these sizes is made of; dimensions of size 1 have none."""
    return tuple(axis(dim, size) for dim, size in enumerate(sizes) if size != ONE)


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype that arithmetic on ``dtype`` happens in."""
    return torch.float32 if dtype in NARROW else dtype


def load(buffer: Buffer) -> Tensor:
    """The whole buffer as a tensor."""
    index = ZERO
    for position, stride in zip(positions(buffer.sizes), buffer.strides, strict=True):
        index = index + position * stride
    element = cast(Load(buffer.name, index, buffer.dtype), compute_dtype(buffer.dtype))
    return Tensor(buffer.sizes, buffer.dtype, buffer.device, element, buffer.name)


def at(tensor: Tensor, indices: Sequence[Index]) -> Expr:
    """The element at ``indices``, an expression over whatever symbols those mention."""
    moves = {
        axis(dim, size): index
        for dim, (size, index) in enumerate(zip(tensor.sizes, indices, strict=True))
        if size != ONE and index.as_symbol() != axis(dim, size)
    }
    return substitute(tensor.expr, moves) if moves else tensor.expr


def reindex(tensor: Tensor, sizes: Sequence[Index], indices: Sequence[Index]) -> Tensor:
    """A view: a tensor of ``sizes`` whose element is ``tensor``'s at ``indices`` (over the new tensor's positions)."""
    return replace(tensor, sizes=tuple(sizes), expr=at(tensor, indices))


def broadcast_to(tensor: Tensor, sizes: Sequence[Index]) -> Tensor:
    """``tensor`` repeated along new leading axes and along axes of size 1."""
    if tensor.sizes == tuple(sizes):
        return tensor
    where = positions(sizes)[len(sizes) - tensor.ndim :]
    indices = [ZERO if size == ONE else position for size, position in zip(tensor.sizes, where, strict=True)]
    return reindex(tensor, sizes, indices)


def broadcast_sizes(shapes: Iterable[Sequence[Index]]) -> tuple[Index, ...]:
    """The common shape of tensors that meet in one operation."""
    result: list[Index] = []
    for shape in shapes:
        result = [ONE] * (len(shape) - len(result)) + result
        for dim, size in enumerate(shape, len(result) - len(shape)):
            if size != ONE:
                result[dim] = size
    return tuple(result)


NUMBERS = frozenset((torch.float64, torch.float32, torch.int64, torch.int32))
"""The dtypes of numbers that kernels on GPUs take by value."""


def is_number(tensor: Tensor) -> bool:
    """True for a single number in the host's memory, which kernels on GPUs are given at their start."""
    in_memory = isinstance(tensor.expr, Load) and tensor.base is not None
    return in_memory and tensor.ndim == 0 and tensor.device.type == "cpu" and tensor.dtype in NUMBERS


def common_device(tensors: Sequence[Tensor]) -> torch.device | None:
    """The device where an operation on all of them happens; None where it would be several.  Constants and 0-d CPU
    tensors go anywhere."""
    devices = {tensor.device for tensor in tensors if not isinstance(tensor.expr, Const)} or {tensors[0].device}
    if len(devices) > 1:
        devices = {t.device for t in tensors if not isinstance(t.expr, Const) and not is_number(t)}
    return devices.pop() if len(devices) == 1 else None


def pure(tensor: Tensor, expr: Expr, dtype: torch.dtype | None = None) -> Tensor:
    """A value of the same shape computed from ``tensor``."""
    return Tensor(tensor.sizes, dtype or tensor.dtype, tensor.device, expr)


def number(value: float | int | bool, dtype: torch.dtype) -> Const:
    """A constant as ``dtype`` would hold it in arithmetic."""
    if dtype == torch.bool:
        return Const(bool(value), dtype)
    if dtype.is_floating_point:
        return Const(float(value), dtype)
    return Const(_wrapped(int(value), dtype), dtype)


def _wrapped(value: int, dtype: torch.dtype) -> int:
    """An integer reduced to the bits of its dtype: torch takes -1 for 255 of eight, and 2 ** 32 + 5 for 5 of 32."""
    span = 1 << (8 * dtype.itemsize)
    value %= span
    return value - span if dtype.is_signed and value >= span // 2 else value


def as_index_value(index: Index, dtype: torch.dtype) -> Expr:
    """A position as a number of ``dtype``."""
    value = index.as_int()
    return number(value, dtype) if value is not None else cast(IndexValue(index, torch.int64), dtype)


def convert(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """``tensor`` in another dtype, as ``Tensor.to`` does it: conversion to a half type rounds."""
    if tensor.dtype == dtype:
        return tensor
    element = cast(tensor.expr, compute_dtype(dtype))
    if dtype in HALF:
        element = Apply("rounded", (element,), torch.float32, dtype)
    return pure(tensor, element, dtype)


def as_stored(tensor: Tensor) -> Tensor:
    """The tensor with its element rounded as memory would hold it, for operators that jump: eager decides by numbers
    that were rounded to half precision."""
    if tensor.dtype not in HALF or isinstance(tensor.expr, Const):
        return tensor
    return replace(tensor, expr=Apply("rounded", (tensor.expr,), torch.float32, tensor.dtype))


def representable(value: bool | int | float, dtype: torch.dtype) -> bool | int | float:
    """The number as a tensor of ``dtype`` holds it."""
    narrow = (*HALF, torch.float32)
    return torch.tensor(value, dtype=torch.float64).to(dtype).item() if dtype in narrow else value


def promoted(tensor: Tensor, dtype: torch.dtype) -> Expr:
    """The element of ``tensor`` as an operand of arithmetic on ``dtype``."""
    return cast(tensor.expr, compute_dtype(dtype))


def strided(tensor: Tensor) -> tuple[tuple[Index, ...], Index] | None:
    """(strides, offset) if the tensor is a strided window on its base; the stride of a size 1 dimension is 1."""
    source = tensor.expr
    # Narrow floats are widened when they are read: the element is a cast of the load.
    if isinstance(source, Apply) and source.op == "cast" and tensor.dtype in NARROW:
        source = source.args[0]
    if tensor.base is None or not isinstance(source, Load) or source.bindings or source.dtype != tensor.dtype:
        return None
    strides: list[Index] = []
    rest = source.index
    for dim, size in enumerate(tensor.sizes):
        if size == ONE:
            strides.append(ONE)
            continue
        symbol = axis(dim, size)
        stride = source.index.stride_of(symbol)
        if stride is None:
            return None
        strides.append(stride)
        rest = rest - stride * Index.of(symbol)
    return tuple(strides), rest


HEAVY = frozenset((
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "lgamma", "digamma", "sigmoid",
    "div", "pow", "rand", "randn", "randint64", "atan2", "hypot", "floordiv", "mod", "fmod",
))  # fmt: skip
"""Operators that cost about as much as eight additions."""


def cost(expr: Expr, limit: int = 1 << 30) -> int:
    """The work of computing one element, with eight for heavy operators; counting stops beyond ``limit``."""
    total = 0
    for node in walk(expr):
        if isinstance(node, Apply):
            total += 8 if node.op in HEAVY else 1
        elif isinstance(node, Load):
            total += 1 + 2 * len(node.bindings)
        if total > limit:
            break
    return total


def cost_again(expr: Expr, device: torch.device) -> int:
    """The work of computing one element once more.  A CPU picks elements at places one by one, not in vectors."""
    picked = sum(len(node.bindings) for node in walk(expr) if isinstance(node, Load)) if device.type == "cpu" else 0
    return cost(expr) + picked * costs.CPU.picked


def unread(expr: Expr, symbols: Iterable[Symbol]) -> frozenset[Symbol]:
    """The symbols that no index and no value mentions: the element is the same at every position along them."""
    read = {symbol for node in walk(expr) if isinstance(node, Load | IndexValue) for symbol in node.index.symbols}
    return frozenset(symbols) - read


def bind(expr: Expr, bindings: Sequence[tuple[Symbol, Expr]]) -> Expr:
    """``expr`` with symbols that were put into its indices read from tensors.  Every load takes those that are in no
    index, too: their values have to be checked."""
    values = dict(bindings)
    unseen = unread(expr, values)

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, Load):
            used = tuple((symbol, values[symbol]) for symbol in sorted({*_used(node, values), *unseen}, key=str))
            return Load(node.buffer, node.index, node.dtype, node.bindings + used) if used else None
        if isinstance(node, IndexValue) and node.index.as_symbol() in values:
            return cast(values[node.index.as_symbol()], node.dtype)  # type: ignore[index]
        return None

    return rewrite(expr, rule)


def bindable(expr: Expr, symbols: Iterable[Symbol]) -> bool:
    """True if ``bind`` reaches every mention of the symbols."""
    wanted = frozenset(symbols)
    return all(
        not isinstance(node, IndexValue) or node.index.as_symbol() in wanted or wanted.isdisjoint(node.index.symbols)
        for node in walk(expr)
    )


def _used(node: Load, values: dict[Symbol, Expr]) -> list[Symbol]:
    """The bound symbols that a load's index mentions."""
    return [symbol for symbol in node.index.symbols if symbol in values]


def compare(op: str, left: Index, right: Index) -> Expr:
    """A comparison of two positions, as a bool; a constant where the ranges decide it."""
    difference = left - right
    low, high = difference.bounds
    if op == "lt" and high is not None and high < 0:
        return Const(True, torch.bool)
    if op == "ge" and low is not None and low >= 0:
        return Const(True, torch.bool)
    return apply(op, as_index_value(left, torch.int64), as_index_value(right, torch.int64))
