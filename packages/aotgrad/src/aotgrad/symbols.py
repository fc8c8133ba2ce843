"""Sizes as graph nodes: turns the symbolic expression behind a SymInt into nodes, on demand.

Arithmetic on SymInts is not recorded when it happens.  A SymInt carries its expression, and only the expressions
that an operator really takes become nodes, each once.
Must not know: tensors' values, autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import fx

from aotgrad.errors import BadGraph

if TYPE_CHECKING:  # static sizes need no sympy, and importing it takes half a second
    import sympy

SymScalar: TypeAlias = Any  # a torch.SymInt, SymFloat or SymBool
SYM_TYPES = (torch.SymInt, torch.SymFloat, torch.SymBool)


class SizeNodes:
    """Knows where each symbol comes from, and writes the nodes that compute an expression of them."""

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._known: dict[sympy.Basic, fx.Node] = {}
        self._sources: dict[sympy.Basic, Callable[[], fx.Node]] = {}
        self._values: dict[sympy.Basic, SymScalar] = {}

    def bind(self, value: SymScalar, node: fx.Node) -> None:
        """`node` computes `value`."""
        self._known.setdefault(value.node.expr, node)
        self._values.setdefault(value.node.expr, value)

    def bind_layout(self, tensor: torch.Tensor, node: fx.Node) -> None:
        """The symbols in the layout of the input `tensor` can be read from it, if nothing better is known."""
        for dim, size in enumerate(tensor.size()):
            self._offer(size, node, torch.ops.aten.sym_size.int, dim)
        for dim, stride in enumerate(tensor.stride()):
            self._offer(stride, node, torch.ops.aten.sym_stride.int, dim)
        self._offer(tensor.storage_offset(), node, torch.ops.aten.sym_storage_offset.default)

    def is_news(self, value: Any) -> bool:
        """Is this a symbol that nothing before has told?"""
        if not isinstance(value, torch.SymInt) or not value.node.expr.is_Symbol:
            return False
        return value.node.expr not in self._known and value.node.expr not in self._sources

    def _offer(self, value: Any, node: fx.Node, read: Any, *where: int) -> None:
        if not isinstance(value, torch.SymInt) or value.node.expr.is_number:
            return
        self._values.setdefault(value.node.expr, value)
        self._sources.setdefault(value.node.expr, lambda: self._write(read, (node, *where), value))

    def node_for(self, value: SymScalar) -> fx.Node | int | float | bool:
        """The node that computes `value`, written now if need be; a plain number if the value is known."""
        expr = value.node.expr
        if expr.is_number or expr in (True, False):
            return _as_number(expr)
        found = self._lookup(expr)
        if found is not None:
            return found
        from torch.utils._sympy.interp import sympy_interp
        from torch.utils._sympy.reference import PythonReferenceAnalysis

        symbols = {symbol: fx.Proxy(self._symbol(symbol)) for symbol in expr.free_symbols}
        before = len(self._graph.nodes)
        written = sympy_interp(PythonReferenceAnalysis, symbols, expr).node
        for node in reversed(list(islice(reversed(self._graph.nodes), len(self._graph.nodes) - before))):
            arguments = [arg.meta["val"] if isinstance(arg, fx.Node) else arg for arg in node.args]
            node.meta.update(val=node.target(*arguments), size=True)
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

    def _write(self, target: Any, args: tuple[Any, ...], value: SymScalar) -> fx.Node:
        node = self._graph.call_function(target, args)
        node.meta.update(val=value, size=True)
        return node


def _as_number(expr: sympy.Basic) -> int | float | bool:
    if expr in (True, False):
        return bool(expr)
    return int(expr) if expr.is_integer else float(expr)


def is_size(node: fx.Node) -> bool:
    """Does this node compute a number, rather than a tensor?"""
    return bool(node.meta.get("size")) or isinstance(node.meta.get("val"), SYM_TYPES)


def size_hint(value: Any) -> int:
    """The number itself, or the one that the example inputs had."""
    return int(value) if isinstance(value, int) else int(value.node.hint or 1)
