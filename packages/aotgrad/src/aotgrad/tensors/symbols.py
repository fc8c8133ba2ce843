"""Sizes as graph nodes: the symbolic expression behind a SymInt becomes nodes, on demand.

Arithmetic on SymInts is not recorded when it happens.  A SymInt carries its expression, and only the expressions
that an operator really takes become nodes, each once.
Must not know: tensors' values, autograd.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import fx

from aotgrad.errors import BadGraph
from aotgrad.torch_versions import aten

if TYPE_CHECKING:  # static sizes need no sympy, and importing it takes half a second
    import sympy


SymScalar: TypeAlias = Any  # a torch.SymInt, SymFloat or SymBool
SYM_TYPES = (torch.SymInt, torch.SymFloat, torch.SymBool)


AS_KERNELS = "divides_as_kernels"
"""The key in the ``meta`` of a division in a gradient's formula: by zero it is infinite, as in kernels, for forward has
accepted the sizes.  The program's divisions raise then, and so may operators that refuse a size of zero."""


class SizeNodes:
    """The nodes that compute sizes of one graph: the source of each symbol, and each expression written once."""

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._known: dict[sympy.Basic, fx.Node] = {}
        self._sources: dict[sympy.Basic, Callable[[], fx.Node]] = {}
        self._values: dict[sympy.Basic, SymScalar] = {}

    def bind(self, value: SymScalar, node: fx.Node) -> None:
        """Notes that `node` computes `value`."""
        self._known.setdefault(value.node.expr, node)
        self._values.setdefault(value.node.expr, value)

    def bind_layout(self, tensor: torch.Tensor, node: fx.Node) -> None:
        """Notes that the symbols in the layout of the input `tensor` can be read from it, if nothing better is
        known."""
        self.bind_sizes(tensor.size(), tensor.stride(), tensor.storage_offset(), node)

    def bind_sizes(self, sizes: Sequence[object], strides: Sequence[object], offset: object, node: fx.Node) -> None:
        """Notes that the symbols in a layout, given by its numbers, can be read from the input `node`."""
        for dim, size in enumerate(sizes):
            self._offer(size, node, aten.sym_size.int, dim)
        for dim, stride in enumerate(strides):
            self._offer(stride, node, aten.sym_stride.int, dim)
        self._offer(offset, node, aten.sym_storage_offset.default)

    def is_news(self, value: object) -> bool:
        """True for a symbol that nothing before can tell."""
        if not isinstance(value, torch.SymInt) or not value.node.expr.is_Symbol:
            return False
        return value.node.expr not in self._known and value.node.expr not in self._sources

    def _offer(self, value: object, node: fx.Node, read: object, *where: int) -> None:
        if not isinstance(value, torch.SymInt) or value.node.expr.is_number:
            return
        self._values.setdefault(value.node.expr, value)
        self._sources.setdefault(value.node.expr, lambda: self._write(read, (node, *where), value))

    def node_for(self, value: SymScalar, *, of_gradient: bool = False) -> fx.Node | int | float | bool:
        """The node that computes `value`, written now if need be; a plain number if the value is known.

        `of_gradient`: a gradient's formula asks for it.
        """
        expr = value.node.expr
        if not expr.free_symbols:
            return _AS_NUMBER[type(value)](expr)
        found = self._lookup(expr)
        if found is not None:
            return found
        from aotgrad.torch_versions import sympy_interp  # torch imports sympy with it

        symbols = {symbol: fx.Proxy(self._symbol(symbol)) for symbol in expr.free_symbols}
        written: fx.Node = sympy_interp(_arithmetic(), symbols, expr).node
        _tell_values(written, of_gradient)
        written.meta["val"] = value
        self._known[expr] = written
        return written

    def _symbol(self, symbol: sympy.Symbol) -> fx.Node:
        found = self._lookup(symbol)
        if found is None:
            raise BadGraph(f"size {symbol} is used, but no graph input tells its value")
        return found

    def _lookup(self, expr: sympy.Basic) -> fx.Node | None:
        if expr not in self._known and expr in self._sources:
            self._known[expr] = self._sources[expr]()
        return self._known.get(expr)

    def _write(self, target: object, args: tuple[object, ...], value: SymScalar) -> fx.Node:
        node = self._graph.call_function(target, args)
        node.meta.update(val=value, size=True)
        return node


def _tell_values(node: fx.Node, of_gradient: bool) -> None:
    """Fills in the values of nodes of arithmetic that was just written."""
    for source in node.all_input_nodes:
        if "val" not in source.meta:
            _tell_values(source, of_gradient)
    arguments = [arg.meta["val"] if isinstance(arg, fx.Node) else arg for arg in node.args]
    node.meta.update(val=node.target(*arguments), size=True)
    if of_gradient and node.target is operator.truediv:
        node.meta[AS_KERNELS] = True


_AS_NUMBER: dict[type, Callable[[Any], int | float | bool]] = {
    torch.SymInt: int,
    torch.SymFloat: float,
    torch.SymBool: bool,
}
"""The number behind a constant expression, by the type of the value, as sympy's 1 equals True."""


@cache
def _arithmetic() -> Any:
    """The handler that turns sympy's operations into Python's."""
    from aotgrad.torch_versions import PythonReferenceAnalysis  # torch imports sympy with it

    class Arithmetic(PythonReferenceAnalysis):
        @staticmethod
        def int_truediv(a: Any, b: Any) -> Any:
            return a / b  # torch's asks for the numbers, to divide large ones exactly

        @staticmethod
        def pow_by_natural(a: Any, b: Any) -> Any:
            if isinstance(b, fx.Proxy) and isinstance(a, (int, float)):
                return _written(pow, a, b)  # FX writes operators without brackets, and `-2 ** n` is minus `2 ** n`
            return a**b

        @staticmethod
        def minimum(a: object, b: object) -> Any:
            return _written(torch.sym_min, a, b)

        @staticmethod
        def maximum(a: object, b: object) -> Any:
            return _written(torch.sym_max, a, b)

    return Arithmetic


def _written(function: Callable[..., Any], *operands: object) -> Any:
    """A call as a node.  The function itself sees proxies only where torch asks operands for their own handlers, as it
    does not within an operator."""
    tracer = next((operand.tracer for operand in operands if isinstance(operand, fx.Proxy)), None)
    return function(*operands) if tracer is None else tracer.create_proxy("call_function", function, operands, {})


def symbols_of(node: fx.Node) -> set[sympy.Symbol]:
    """The symbols that the node's value, or the layout of it, is described with."""
    held = node.meta.get("val")
    values: list[Any] = []
    for value in held if isinstance(held, (tuple, list)) else [held]:
        values += [*value.shape, *_strides(value)] if isinstance(value, torch.Tensor) else [value]
    numbers = (value for value in values if isinstance(value, SYM_TYPES))
    return {symbol for number in numbers for symbol in number.node.expr.free_symbols}


def _strides(value: torch.Tensor) -> tuple[Any, ...]:
    return value.stride() if value.layout is torch.strided else ()


def defining_nodes(symbols: set[sympy.Symbol], nodes: Sequence[fx.Node]) -> list[fx.Node]:
    """The nodes among these that compute the symbols; a symbol that only the layout of a tensor has is read from it."""
    found: dict[sympy.Symbol, fx.Node] = {}
    for node in nodes:
        if isinstance(value := node.meta.get("val"), SYM_TYPES) and (symbol := value.node.expr) in symbols:
            found.setdefault(symbol, node)
    for node in nodes if symbols - found.keys() else ():
        for read, dim, number in _in_layout(node.meta.get("val")):
            if (symbol := number.node.expr) in symbols - found.keys():
                found[symbol] = _reading(read, node, dim, number)
    return [found[symbol] for symbol in sorted(found, key=str)]


def _in_layout(value: object) -> Iterator[tuple[Any, int, torch.SymInt]]:
    """The sizes and strides of a tensor that vary, and how each is read from it."""
    if isinstance(value, torch.Tensor):
        for read, layout in ((aten.sym_size.int, value.shape), (aten.sym_stride.int, _strides(value))):
            for dim, number in enumerate(layout):
                if isinstance(number, torch.SymInt):
                    yield read, dim, number


def _reading(read: object, node: fx.Node, dim: int, value: torch.SymInt) -> fx.Node:
    last_input = node if node.op != "placeholder" else node.graph.find_nodes(op="placeholder")[-1]
    with node.graph.inserting_after(last_input):
        reading = node.graph.call_function(read, (node, dim))
    reading.meta.update(val=value, size=True)
    return reading


def is_size(node: fx.Node) -> bool:
    """True for a node that computes a number rather than a tensor."""
    return bool(node.meta.get("size")) or isinstance(node.meta.get("val"), SYM_TYPES)


def is_same(one: object, other: object) -> bool:
    """True for equal sizes, without asking for the values of symbols, which would make a guard of the answer."""
    if isinstance(one, SYM_TYPES) and isinstance(other, SYM_TYPES):
        return bool(one.node.expr == other.node.expr)
    return type(one) is type(other) and bool(one == other)


def may_divide_by_zero(node: fx.Node) -> bool:
    """True for a division by a number that may be 0, for all that is known of its symbols."""
    if node.target not in (operator.truediv, operator.floordiv, operator.mod):
        return False
    divisor = node.args[1].meta["val"] if isinstance(node.args[1], fx.Node) else node.args[1]
    if not isinstance(divisor, SYM_TYPES):
        return bool(divisor == 0)
    return not bool(divisor.node.shape_env.bound_sympy(divisor.node.expr).lower > 0)


def has_hint(value: int | torch.SymInt) -> bool:
    """True for a number that is known ahead of a run, in its example at least: data tells the others."""
    return isinstance(value, int) or bool(value.node.has_hint())


def size_hint(value: Any) -> int:
    """The number itself, or for a symbolic one its value in the example inputs."""
    return int(value) if isinstance(value, int) else int(value.node.hint or 1)
