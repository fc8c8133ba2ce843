"""Dependencies: the buffers that a nest or a call reads and writes, and the order of operations that follows from
them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from inductor.ir.expr import CHECKS, Apply, Expr, IndexValue, Load, walk
from inductor.ir.graph import Graph, Nest, Operation
from inductor.ir.index import Index, Symbol
from inductor.ir.kernel import Loop, Reduce, Scan, Statement, Store
from inductor.ir.ops import POSITIONS
from inductor.ir.program import Call, Ref, View
from inductor.torch_versions import OpOverload, aten, pytree, schema_of

UNDECLARED_WRITES = (
    torch.ops.aten.native_batch_norm.default,
    aten._native_batch_norm_legit.default,
)
"""Operators that change their fourth and fifth argument; the schema of the first does not say so."""
_VIEWS_UNSAID = frozenset(
    [
        "_unsafe_view",
        "_lazy_clone",
        "unsafe_chunk",
        "unsafe_split",
        "unsafe_split_with_sizes",
        "type_as",
        "diag",
        "einsum",
        "meshgrid",
        "broadcast_tensors",
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "cartesian_prod",
        "dropout",
        "feature_dropout",
        "alpha_dropout",
        "feature_alpha_dropout",
    ]
)
"""Operators of which a result may lie in the memory of an argument, though their schema does not say so."""
RANDOM_STATE = "<random state>"
"""The name that stands for the random stream among the buffers that operators write."""
OUTSIDE = "<outside>"
"""The name that stands for anything beside tensors that an operator may change, as custom operators may."""


def expressions(statement: Statement) -> Iterator[Expr]:
    """Every tree a statement holds."""
    yield statement.value
    if isinstance(statement, Store):
        for _, value in statement.bindings:
            yield value
        if statement.mask is not None:
            yield statement.mask


def nodes(loops: Sequence[Loop]) -> Iterator[Expr]:
    """Every expression node of a nest."""
    for loop in loops:
        for statement in loop.body:
            for expr in expressions(statement):
                yield from walk(expr)


def loads_of(loops: Sequence[Loop]) -> Iterator[Load]:
    return (node for node in nodes(loops) if isinstance(node, Load))


def stores_of(loops: Sequence[Loop]) -> Iterator[Store]:
    return (statement for loop in loops for statement in loop.body if isinstance(statement, Store))


def indices_of(loops: Sequence[Loop]) -> Iterator[Index]:
    """Every index a nest computes: of loads and stores, and positions used as values."""
    for node in nodes(loops):
        if isinstance(node, Load | IndexValue):
            yield node.index
    for store in stores_of(loops):
        yield store.index


def static_extent(axes: Iterable[Symbol]) -> int | None:
    """The number of iterations of the axes together; None where it is known only at run time."""
    total = 1
    for axis in axes:
        extent = axis.size.as_int() if axis.size is not None else None
        if extent is None:
            return None
        total *= extent
    return total


def has_scans(loops: Iterable[Loop]) -> bool:
    """True if a scan runs along one of the loops, so that its turns have to be taken one after the other."""
    return any(isinstance(statement, Scan) for loop in loops for statement in loop.body)


def checks_positions(loops: Sequence[Loop]) -> bool:
    """True if a position that is read from a tensor is checked against its axis."""
    return any(isinstance(node, Apply) and node.op in CHECKS for node in nodes(loops))


def counts_positions(loops: Sequence[Loop]) -> bool:
    """True if a reduction's outcome is a position, or something runs along: the order of axes matters."""
    return any(
        isinstance(s, Scan) or (isinstance(s, Reduce) and s.kind in POSITIONS) for loop in loops for s in loop.body
    )


@dataclass(frozen=True, slots=True)
class Access:
    """The buffers that an operation touches; ``reads`` includes those that it combines with their old elements."""

    reads: frozenset[str]
    writes: frozenset[str]


def access(operation: Operation, graph: Graph) -> Access:
    """The buffers that an operation reads and writes.  A window counts as the buffer it is a window on; a view that a
    call returned counts as itself and as the buffer that it views."""
    touched = _access(operation, graph.views)
    if graph.aliases.keys().isdisjoint(touched.reads | touched.writes):
        return touched
    viewed = [{graph.aliases.get(name, name) for name in names} for names in (touched.reads, touched.writes)]
    return Access(touched.reads.union(viewed[0]), touched.writes.union(viewed[1]))


def _access(operation: Operation, views: dict[str, View]) -> Access:
    if isinstance(operation, Nest):
        reads = {load.buffer for load in loads_of(operation.loops)}
        reads |= _data_sizes(axis.size for axis in operation.domain if axis.size is not None)
        reads |= _data_sizes(indices_of(operation.loops))
        writes: set[str] = set()
        for store in stores_of(operation.loops):
            writes.add(store.buffer)
            if store.mode != "set":
                reads.add(store.buffer)
        return Access(frozenset(reads), frozenset(writes))
    return _call_access(operation, views)


def _call_access(call: Call, views: dict[str, View]) -> Access:
    reads = {root(ref.name, views) for ref in refs(call)}
    reads |= _data_sizes(_numbers_of(call))
    writes = {buffer.name for buffer in call.outputs if buffer is not None} | set(call.into)
    writes |= {root(name, views) for name in mutated(call)}
    writes |= set() if call.number is None else _data_sizes([Index.of(call.number)])
    writes |= _data_sizes(size for buffer in call.outputs if buffer is not None for size in buffer.sizes)
    # Whether a program's own operator draws numbers, its tags need not say.
    if torch.Tag.nondeterministic_seeded in call.target.tags or is_custom(call.target):
        writes.add(RANDOM_STATE)
    # Called for something other than a result, or custom: its order with others of the kind is kept.
    if not (any(call.outputs) or call.number) or call.target.namespace not in ("aten", "prims"):
        writes.add(OUTSIDE)
    return Access(frozenset(reads), frozenset(writes))


_TORCHS = frozenset(("aten", "prims", "mkldnn", "mkl", "onednn", "quantized", "quantized_decomposed", "fbgemm"))
"""The namespaces of operators whose schemas and tags say all that is to be known of them."""


def is_custom(target: OpOverload) -> bool:
    """True for an operator of the program's own, or of another library's."""
    return target.namespace not in _TORCHS


def _numbers_of(call: Call) -> Iterator[Index]:
    """The sizes among the arguments, and those that floats among them are made of."""
    for leaf in pytree.tree_leaves((call.args, dict(call.kwargs))):
        if isinstance(leaf, Index):
            yield leaf
        elif isinstance(leaf, Apply | IndexValue):
            yield from (part.index for part in walk(leaf) if isinstance(part, IndexValue))


def _data_sizes(sizes: Iterable[Index]) -> set[str]:
    """Names for integers that are known only once a call has returned: they order operations as buffers do."""
    found = (symbol for size in sizes for symbol in size.symbols)
    return {f"<{symbol}>" for symbol in found if symbol.unbounded}


def refs(call: Call) -> list[Ref]:
    """The buffers a call is given."""
    leaves = pytree.tree_leaves((call.args, [value for _, value in call.kwargs]))
    return [leaf for leaf in leaves if isinstance(leaf, Ref)]


def mutated(call: Call) -> list[str]:
    """The arguments a call writes to, by its schema."""
    if call.target in UNDECLARED_WRITES:
        return [ref.name for ref in call.args[3:5] if isinstance(ref, Ref)]
    if not schema_of(call.target).is_mutable:
        return []
    named, names = dict(call.kwargs), []
    for position, argument in enumerate(schema_of(call.target).arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = call.args[position] if position < len(call.args) else named.get(argument.name)
            names += [leaf.name for leaf in pytree.tree_leaves(value) if isinstance(leaf, Ref)]
    return names


def gives_views(target: OpOverload) -> bool:
    """True if a result may share memory with an argument."""
    schema = schema_of(target)
    if target.namespace == "aten" and schema.name.partition("::")[2] in _VIEWS_UNSAID:
        return True
    return any(result.alias_info is not None for result in schema.returns)


def root(name: str, views: dict[str, View]) -> str:
    """The buffer behind a window."""
    while name in views:
        name = views[name].base
    return name


def dependencies(graph: Graph) -> tuple[list[Access], list[set[int]]]:
    """The accesses of every operation, and the earlier operations that each must follow: the writer of what it reads,
    the readers and the writer of what it writes."""
    accesses = [access(operation, graph) for operation in graph.operations]
    writer: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    before: list[set[int]] = []
    for number, touched in enumerate(accesses):
        needed = {writer[name] for name in touched.reads if name in writer}
        for name in touched.writes:
            needed.update(readers.pop(name, ()))
            if name in writer:
                needed.add(writer[name])
            writer[name] = number
        for name in touched.reads:
            readers.setdefault(name, []).append(number)
        # A read and a write of one buffer in one operation need no order.
        needed.discard(number)
        before.append(needed)
    return accesses, before
