"""Operators that write to their arguments.  ``meta['in_place']`` of a functional operator names the one that does the
same in place.  Its results are then the new contents of those arguments, and where nobody needs the old ones nothing is
copied.

The operator is called as it is, and may look at strides: every tensor has exactly those that the tracer saw.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch.fx import Graph, Node

from inductor.ir.index import Index
from inductor.lowerings.context import Context, read_buffers
from inductor.lowerings.values import Tensor, load, strided
from inductor.rewrites.views import is_view
from inductor.torch_versions import OpOverload, aten, schema_of

UNINITIALISED = frozenset(
    getattr(aten, name).default for name in ("empty_like", "new_empty", "new_empty_strided", "empty_strided")
) | {aten.empty.memory_format}
"""Operators whose result has unspecified contents, so that there is nothing to copy."""


def operator_in_place(node: Node) -> OpOverload | None:
    """The in-place operator that the node may call on its own arguments; None for a node without."""
    found = node.meta.get("in_place")
    return found if isinstance(found, OpOverload) and not schema_of(found).returns else None


@dataclass(frozen=True, slots=True)
class Uses:
    """The lifetimes of values: for each node its place in the graph and that of the last node that reads its contents,
    and for each input the value that it has in the end."""

    place: dict[Node, int]
    last: dict[Node, int]
    final: dict[str, Node]

    @staticmethod
    def of(graph: Graph, same: Mapping[Node, Node]) -> Uses:
        """The lifetimes in a graph.  ``same``: nodes that stand for an earlier one, whose readers count for that."""
        place = {node: number for number, node in enumerate(graph.nodes)}
        last: dict[Node, int] = {}
        for node in reversed(graph.nodes):
            read = [user for user in node.users if not _only_looks(user, node)]
            # A view of a value reads it for as long as the view is read.
            last[node] = max((last[user] if is_view(user) else place[user] for user in read), default=place[node])
        for node, first in same.items():
            last[first] = max(last[first], last[node])
        copies = [node.args for node in graph.nodes if node.target is aten.copy_.default]
        return Uses(place, last, {target.name: _copied(source) for target, source, *_ in copies})


def _copied(node: object) -> Any:
    """The value behind functional ``copy`` nodes, which make none of their own."""
    while isinstance(node, Node) and node.target is aten.copy.default:
        node = node.args[1]
    return node


def _only_looks(user: Node, node: Node) -> bool:
    """True if the user reads the node's shape alone: ``copy`` overwrites its first operand, and an empty tensor takes a
    size."""
    if user.target in UNINITIALISED:
        return True
    return user.target in (aten.copy.default, aten.copy_.default) and node is user.args[0] and node is not user.args[1]


class InPlace:
    """The in-place calls of one graph."""

    def __init__(self, ctx: Context, uses: Uses, inputs: frozenset[str], before_writing: Callable[..., None]) -> None:
        self._ctx = ctx
        self._uses = uses
        self._inputs = inputs
        self._before_writing = before_writing

    def call(self, node: Node, target: OpOverload, given: Mapping[str, Any]) -> Any:
        """Emits the call; returns the written arguments, which are its results."""
        results: list[Tensor] = []
        arguments: list[Any] = []
        for argument in schema_of(target).arguments:
            value, source = given[argument.name], node.kwargs[argument.name]
            if isinstance(value, Tensor) and isinstance(source, Node):
                strides = self._ctx.sizes.strides(source.meta["val"].stride())
                # Written arguments become results of this graph; the others only have to lie as the tracer saw them.
                if argument.alias_info is not None and argument.alias_info.is_write:
                    value = self._to_be_written(node, source, value, strides)
                    results.append(value)
                else:
                    value = laid_out(self._ctx, value, strides)
                value = self._ctx.ref(value)
            arguments.append(value)
        self._ctx.call(target, arguments, {}, [], None)
        self._ctx.mutated.update(value.base for value in results if value.base is not None)
        return results[0] if len(results) == 1 else results

    def _to_be_written(self, node: Node, source: Node, value: Tensor, strides: Sequence[Index]) -> Tensor:
        """Memory with the argument's contents that the call may write to."""
        whole = self._in_memory(value)
        if self._is_free(node, source, whole) and laid_out(self._ctx, whole, strides) is whole:
            self._before_writing([whole], {}, lambda other: self._uses.last[other] > self._uses.place[node])
            return whole
        buffer = self._ctx.buffer(value.sizes, value.dtype, value.device, tuple(strides))
        if source.target not in UNINITIALISED:
            self._ctx.store(load(buffer), value.expr)
        return load(buffer)

    def _in_memory(self, value: Tensor) -> Tensor:
        """The tensor as a whole buffer, if its element is just a load from one."""
        names = read_buffers(value.expr) if value.base is None else ()
        for whole in (load(self._ctx.buffers[name]) for name in names):
            if (whole.expr, whole.sizes, whole.dtype) == (value.expr, value.sizes, value.dtype):
                return whole
        return value

    def _is_free(self, node: Node, source: Node, value: Tensor) -> bool:
        """True if the graph may write to the memory, all of it, and nothing reads its old contents later."""
        base, ctx = value.base, self._ctx
        if base is None or base in ctx.constants or base in ctx.returned or ctx.buffers[base].sizes != value.sizes:
            return False
        # An input may be written only with what it is to become: the caller sees its contents.
        if base in self._inputs and not _gives(node, self._uses.final.get(base)):
            return False
        # The same tensor as another argument would change while the operator reads it.
        if list(node.kwargs.values()).count(source) > 1:
            return False
        over_it = (other for other, held in ctx.values.items() if _lies_in(held, base))
        return all(self._uses.last[other] <= self._uses.place[node] for other in over_it)


def _gives(node: Node, value: Node | None) -> bool:
    """True if the value is a result of the node."""
    return value is node or (value is not None and value.target is operator.getitem and value.args[0] is node)


def _lies_in(held: object, base: str) -> bool:
    """True if the value, or a part of it, is a window on the buffer."""
    if isinstance(held, list | tuple):
        return any(_lies_in(part, base) for part in held)
    return isinstance(held, Tensor) and held.base == base


def laid_out(ctx: Context, value: Tensor, strides: Sequence[Index]) -> Tensor:
    """The tensor in memory with exactly these strides, copied where it has others."""
    wanted = tuple(strides)
    value = ctx.realize(value, wanted)
    layout = strided(value)
    if layout is not None and all(
        size == 1 or have == want for size, have, want in zip(value.sizes, layout[0], wanted, strict=True)
    ):
        return value
    return ctx.realize(replace(value, base=None), wanted)
