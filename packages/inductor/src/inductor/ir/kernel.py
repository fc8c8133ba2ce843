"""Kernels: loops over axes, with statements in them.  Made by the scheduler, printed by every target.

```
kernel softmax_0(x: float32[8192], out: float32[8192])
for i in 128:                              # axes: every iteration is independent
    for r in 64:                           # a Loop: one pass over the reduction axis
        m = max(load x[64 * i + r])        # Reduce: its Result exists after the loop
    for r in 64:
        s = sum(exp(load x[64 * i + r] - m))
    for r in 64:
        out[64 * i + r] = exp(load x[64 * i + r] - m) / s
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import torch

from inductor.ir.expr import Expr, substitute
from inductor.ir.index import Index, Symbol, size_symbol
from inductor.ir.layout import CpuLayout, Layout, Shape, Tiling

StoreMode = Literal["set", "add", "mul", "max", "min"]
"""``set`` writes, the others combine with what is there, atomically where iterations may meet (scatter-add).  Where
several iterations ``set`` one place, the last one's value stays on CPUs, and any one's on GPUs."""


@dataclass(frozen=True, slots=True)
class Store:
    """Writes one element; the value is narrowed to the buffer's dtype.  ``bindings`` are those of ``Load``; a ``mask``
    that is false at run time suppresses the write."""

    buffer: str
    index: Index
    value: Expr
    mode: StoreMode = "set"
    bindings: tuple[tuple[Symbol, Expr], ...] = ()
    mask: Expr | None = None

    @property
    def may_meet(self) -> bool:
        """True if several iterations may write to one element, so that the write may have to be atomic."""
        return bool(self.bindings) or self.mode != "set"


@dataclass(frozen=True, slots=True)
class Reduce:
    """Reduces ``value`` over the axes of the enclosing loop; later statements read it as ``Result(name)``.
    The accumulator has ``dtype``; for argmax and argmin that is int64 and the position counts along the loop's axes
    flattened in row-major order."""

    name: str
    kind: str
    value: Expr
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class Scan:
    """A running reduction: its result for each element covers the elements up to it, in row-major order of the loop's
    axes.  Later statements of the same loop body read it as ``Result(name)``."""

    name: str
    kind: str
    value: Expr
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class Let:
    """Names a value; later statements of the same loop body read it as ``Result(name)``.  In a loop without axes it is
    visible to all later loops too: that is where what does not change along a row is computed once."""

    name: str
    value: Expr


Statement: TypeAlias = Store | Reduce | Scan | Let


def map_statement(
    statement: Statement, change: Callable[[Expr], Expr], moves: Mapping[Symbol, Index] | None = None
) -> Statement:
    """The statement with every tree changed, and its own index moved."""
    if isinstance(statement, Store):
        return Store(
            statement.buffer,
            statement.index.subs(moves) if moves else statement.index,
            change(statement.value),
            statement.mode,
            tuple((symbol, change(value)) for symbol, value in statement.bindings),
            None if statement.mask is None else change(statement.mask),
        )
    return replace(statement, value=change(statement.value))


def substituted(body: tuple[Statement, ...], moves: Mapping[Symbol, Index]) -> tuple[Statement, ...]:
    """The statements with symbols replaced."""
    if not moves:
        return body
    return tuple(map_statement(statement, lambda expr: substitute(expr, moves), moves) for statement in body)


@dataclass(frozen=True, slots=True)
class Loop:
    """One pass over reduction axes inside the kernel's axes.  Without axes it runs once: the epilogue of a row.
    A statement may read the Results of earlier loops, and the buffers that earlier loops stored at the same element."""

    axes: tuple[Symbol, ...]
    body: tuple[Statement, ...]


DEFAULT_TILING = Tiling()
"""The tiling of a product before ``schedule`` or tuning has chosen one."""
PRODUCT = "product"
"""The name under which loops read an element of the product before them."""
COUNT = size_symbol("elements", 1)
"""The symbolic number of elements of a family's shared text; each member is given its own number."""


@dataclass(frozen=True, slots=True)
class Product:
    """A product of matrices, or of many, made before a kernel's loops, which read an element of it as
    ``Result(PRODUCT)``.  The kernel's axes are those of the batch, ``rows`` and ``columns``, in this order; ``left``
    and ``right`` are elements of the factors, in terms of these axes and of ``inner``, and have ``dtype`` when they are
    multiplied."""

    left: Expr
    right: Expr
    rows: tuple[Symbol, ...]
    columns: tuple[Symbol, ...]
    inner: Symbol
    dtype: torch.dtype
    tiling: Tiling = DEFAULT_TILING


@dataclass(frozen=True, slots=True)
class Argument:
    """A buffer the kernel is given: ``in``, ``out`` (every element written before it is read) or ``inout``.
    ``numel`` is the extent of the storage used.  Different arguments never share memory.  A ``number`` is one element
    of the host's memory, which a kernel on a GPU is given by its value at the start; numbers come last."""

    name: str
    dtype: torch.dtype
    numel: Index
    role: Literal["in", "out", "inout"]
    number: bool = False


@dataclass(frozen=True, slots=True)
class Kernel:
    """Independent iterations over ``axes``, each running ``loops`` in order.  ``sizes`` are the run-time integers the
    indices mention; ``origins`` name the operators that went in, for people and profilers.  ``once`` names values that
    are the same in every iteration and computed before the first.  Only on GPUs kernels begin with a ``product``, or
    are made of ``members``: others that run beside one another, each on arguments of its own, and nothing else;
    ``families`` says which of these share their text.  ``layout`` says how the kernel runs on its target: that is
    decided last."""

    name: str
    device: Literal["cpu", "cuda"]
    axes: tuple[Symbol, ...]
    loops: tuple[Loop, ...]
    arguments: tuple[Argument, ...]
    sizes: tuple[Symbol, ...] = ()
    origins: tuple[str, ...] = field(default=(), compare=False)
    once: tuple[Let, ...] = ()
    product: Product | None = None
    members: tuple[Kernel, ...] = ()
    families: tuple[Family, ...] = ()
    layout: Layout | None = None

    @property
    def cpu(self) -> CpuLayout:
        """The layout of a kernel for CPUs."""
        assert isinstance(self.layout, CpuLayout), f"{self.name} has no layout for CPUs"
        return self.layout

    @property
    def shape(self) -> Shape:
        """The layout of a kernel for GPUs: its block and its warps."""
        assert isinstance(self.layout, Shape), f"{self.name} has no shape for GPUs"
        return self.layout

    @property
    def pointers(self) -> int:
        """The number of arguments that are buffers; numbers passed by value follow them."""
        return sum(not argument.number for argument in self.arguments)

    @property
    def passes(self) -> tuple[Loop, ...]:
        """Everything that a kernel computes, as loops: the values computed once, the factors of its product, and its
        own loops."""
        first = (Loop((), self.once),) if self.once else ()
        if self.product is None:
            return (*first, *self.loops)
        factors = Let(f"{PRODUCT}.left", self.product.left), Let(f"{PRODUCT}.right", self.product.right)
        return (*first, Loop((self.product.inner,), factors), *self.loops)


@dataclass(frozen=True, slots=True)
class Family:
    """``count`` members of a kernel that stand beside one another and share a text: that of ``general``, which has any
    number of elements, a multiple of ``step``."""

    general: Kernel
    count: int
    step: int


def numbers_last(arguments: Iterable[Argument]) -> tuple[Argument, ...]:
    """Arguments in the order in which kernels take them: buffers first, then numbers passed by value."""
    return tuple(sorted(arguments, key=lambda argument: argument.number))
