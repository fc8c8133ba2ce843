"""The graph under construction: lowerings put buffers, loop nests and library calls into it.  Knows no particular
operators."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx import Node

from inductor.deps import indices_of
from inductor.errors import UnsupportedGraph
from inductor.ir.expr import Const, Expr, Load, Result, apply, cast, loads
from inductor.ir.graph import Nest, Operation
from inductor.ir.index import ONE, ZERO, Index, Symbol
from inductor.ir.kernel import Let, Loop, Reduce, Scan, Statement, Store, StoreMode, substituted
from inductor.ir.ops import POSITIONS
from inductor.ir.program import Buffer, Call, Ref, View
from inductor.lowerings.sizes import Sizes, contiguous_strides, image_strides
from inductor.lowerings.values import COMPUTED, DEVICES, Tensor, axes, compute_dtype, load, positions, reindex, strided
from inductor.rewrites.layouts import Layout
from inductor.torch_versions import OpOverload

Finish = Callable[..., Sequence[tuple[Expr, torch.dtype]]]
"""A function from the results of reductions to the values that are kept of them, each with its dtype."""


@dataclass
class Context:
    """The graph under construction.  ``node`` is the FX node being lowered, ``dtypes`` are those of its results;
    ``values`` holds what came before, ``done`` what a lowering did ahead of its turn; ``returned`` names what calls
    gave and ``partial`` sums of some of that, ``aliases`` the buffers that calls gave views of; ``shared`` are nodes
    that equal ones stand for, or stand for them; ``fused_random`` says that random numbers are computed in kernels,
    from the ``seeds`` of this call."""

    sizes: Sizes = field(default_factory=Sizes)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    returned: set[str] = field(default_factory=set)
    partial: set[str] = field(default_factory=set)
    mutated: set[str] = field(default_factory=set)
    aliases: dict[str, str] = field(default_factory=dict)
    layouts: Mapping[Node, Layout] = field(default_factory=dict)
    shared: frozenset[Node] = frozenset()
    values: dict[Node, Any] = field(default_factory=dict)
    done: dict[Node, Tensor] = field(default_factory=dict)
    fused_random: bool = False
    seeds: dict[torch.device, str] = field(default_factory=dict)
    node: Node | None = None
    dtypes: list[torch.dtype] = field(default_factory=list)
    origins: dict[Node, tuple[str, ...]] = field(default_factory=dict)
    # By the identity of a tensor, which each entry keeps alive: another one could have its number afterwards.
    _owners: dict[int, tuple[Tensor, Node]] = field(default_factory=dict)
    _windowed: dict[int, tuple[Tensor, Node]] = field(default_factory=dict)
    _realized: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    _windows: dict[tuple[str, tuple[Index, ...], tuple[Index, ...], Index, torch.dtype, bool], str] = field(
        default_factory=dict
    )
    _layouts: list[tuple[tuple[Index, ...], tuple[Index, ...]]] = field(default_factory=list)
    _counter: itertools.count[int] = field(default_factory=itertools.count)
    _streams: itertools.count[int] = field(default_factory=itertools.count)

    # -- the node at hand ---------------------------------------------------------------------------------------------

    def begin(self, node: Node, metas: Iterable[torch.Tensor]) -> None:
        """Starts the lowering of ``node``, whose results look like ``metas``."""
        self.node = node
        self._layouts, self.dtypes = [], []
        for meta in metas:
            self.dtypes.append(meta.dtype)
            if meta.layout == torch.strided:
                self._layouts.append((self.sizes.indices(meta.shape), self.sizes.strides(meta.stride())))

    def next_stream(self) -> int:
        """A number for an operator that draws random numbers."""
        return next(self._streams)

    def own(self, tensor: Tensor, node: Node) -> None:
        """Remembers which node a tensor is the value of, so that realising it later uses that node's layout and
        name."""
        (self._owners if tensor.base is None else self._windowed).setdefault(id(tensor), (tensor, node))

    def current(self, tensor: Tensor) -> Tensor:
        """The tensor as it stands in memory by now, if it does."""
        entry = self._realized.get(id(tensor))
        return tensor if entry is None else entry[1]

    # -- memory -------------------------------------------------------------------------------------------------------

    def buffer(
        self,
        sizes: tuple[Index, ...],
        dtype: torch.dtype,
        device: torch.device,
        strides: tuple[Index, ...] | None = None,
        gaps: bool = False,
    ) -> Buffer:
        """A new buffer; without strides it has those eager gives the node's result of that shape.

        Strides that leave gaps or overlap are those of a view, whose elements want no more memory than they fill;
        with ``gaps`` they are kept, as whoever asks ``empty_strided`` for them expects.
        """
        if strides is None:
            strides = next((strides for shape, strides in self._layouts if shape == sizes), None)
        if strides is None or not (gaps or is_dense(sizes, strides)):
            strides = contiguous_strides(sizes)
        buffer = Buffer(f"b{next(self._counter)}", dtype, device, sizes, strides)
        self.buffers[buffer.name] = buffer
        return buffer

    def realize(self, tensor: Tensor, strides: tuple[Index, ...] | None = None, gaps: bool = False) -> Tensor:
        """The tensor with memory behind it: as it is if it is a window on a buffer, else computed into a new one."""
        tensor = self.current(tensor)
        if tensor.base is not None and strided(tensor) is not None:
            return tensor
        _, owner = self._owners.get(id(tensor), (tensor, None))
        if strides is None and owner is not None:
            strides = self.strides_of(owner)
        buffer = self.buffer(tensor.sizes, tensor.dtype, tensor.device, strides, gaps)
        result = load(buffer)
        if _is_transposed(buffer):  # walked as it lies, so that it shares kernels with what is not transposed
            domain = (*buffer.sizes[:-2], buffer.sizes[-1], buffer.sizes[-2])
            *outer, rows, columns = positions(domain)
            target, value = (reindex(t, domain, [*outer, columns, rows]) for t in (result, tensor))
            self.store(target, value.expr, owner=owner, domain=domain)
        else:
            self.store(result, tensor.expr, owner=owner)
        self._realized[id(tensor)] = (tensor, result)
        return result

    def strides_of(self, node: Node) -> tuple[Index, ...] | None:
        """The strides in which a node's value shall lie in memory: the tracer's, but for images between
        convolutions."""
        meta = node.meta.get("val")
        if not isinstance(meta, torch.Tensor):
            return None
        if (layout := self.layouts.get(node)) is not None:
            return image_strides(self.sizes.indices(meta.shape), layout == "channels last")
        return self.sizes.strides(meta.stride())

    def ref(self, tensor: Tensor) -> Ref:
        """The tensor as an argument of a library call: a buffer, or a window on one."""
        _, node = self._windowed.get(id(tensor), (tensor, None))
        tensor = self.realize(tensor)
        layout = strided(tensor)
        if layout is None or tensor.base is None:
            raise UnsupportedGraph(f"no strided memory for {tensor}")
        base = self.buffers[tensor.base]
        strides, offset = layout
        same = offset == ZERO and base.sizes == tensor.sizes and same_strides(tensor.sizes, strides, base.strides)
        if node is not None and len(strides) in OF_IMAGES and ONE in tensor.sizes:
            strides = self._as_traced(node, tensor, strides)
            same = same and strides == base.strides
        return Ref(base.name) if same else Ref(self.window(base.name, tensor, strides, offset))

    def _as_traced(self, node: Node, tensor: Tensor, strides: tuple[Index, ...]) -> tuple[Index, ...]:
        """Strides with eager's values along dimensions of one element: by these, too, the library tells images whose
        channels are innermost from others."""
        traced = self.strides_of(node)
        if traced is None or len(traced) != len(strides):
            return strides
        return tuple(
            known if size == ONE else stride for size, stride, known in zip(tensor.sizes, strides, traced, strict=True)
        )

    def window(self, base: str, tensor: Tensor, strides: tuple[Index, ...], offset: Index, own: bool = False) -> str:
        """The name of a view on ``base``."""
        key = (base, tensor.sizes, strides, offset, tensor.dtype, own)
        if key not in self._windows:
            name = f"v{next(self._counter)}"
            made = Buffer(name, tensor.dtype, tensor.device, tensor.sizes, strides)
            self.views[name] = View(made, base, offset, own)
            self._windows[key] = name
        return self._windows[key]

    # -- operations ---------------------------------------------------------------------------------------------------

    def emit(self, operation: Operation) -> None:
        """Appends an operation to the graph; raises for a nest that no kernel can compute."""
        if isinstance(operation, Nest):
            buffer = self.buffers[operation.name]
            if buffer.dtype not in COMPUTED or operation.device.type not in DEVICES:
                raise UnsupportedGraph(f"{buffer.dtype} on {operation.device.type}, for which there are no kernels")
            operation = _by_its_own_axes(operation) if self.sizes.symbols else operation
        self.operations.append(operation)

    def labels(self, node: Node | None = None) -> tuple[str, ...]:
        """The names of the FX nodes that a nest made for ``node`` computes: itself and pending ones before it."""
        node = node or self.node
        if node is None:
            return ()
        if node.target is operator.getitem and isinstance(node.args[0], Node):
            node = node.args[0]
        if node in self.origins:
            return self.origins[node]
        inputs = (self.origins.get(arg, ()) for arg in node.all_input_nodes)
        return tuple(dict.fromkeys((*itertools.chain.from_iterable(inputs), node.name)))

    def store(
        self,
        target: Tensor,
        value: Expr,
        mode: StoreMode = "set",
        bindings: tuple[tuple[Symbol, Expr], ...] = (),
        owner: Node | None = None,
        domain: tuple[Index, ...] | None = None,
    ) -> None:
        """A nest that writes ``value`` to every element of a window on a buffer."""
        place = target.expr
        while not isinstance(place, Load):
            place = place.args[0]  # type: ignore[union-attr]
        name = place.buffer
        body: tuple[Statement, ...]
        value = _unless_never_read(value, domain if domain is not None else target.sizes)
        if mode == "set" and not bindings:
            # The value is named like its buffer: a kernel that takes over its readers then finds it by that name, and
            # reads no memory.
            kept = Result(name, value.dtype)
            body = (Let(name, value), Store(name, place.index, kept))
        else:
            body = (Store(name, place.index, value, mode, place.bindings + bindings),)
        domain_axes = axes(domain if domain is not None else target.sizes)
        self.emit(Nest(name, target.device, domain_axes, frozenset(), (Loop((), body),), self.labels(owner)))

    def reduce(
        self,
        like: Tensor,
        dims: Sequence[int],
        reductions: Sequence[tuple[str, Expr, torch.dtype]],
        finish: Finish,
        keepdim: bool = False,
        strides: tuple[Index, ...] | None = None,
    ) -> list[Tensor]:
        """Reduces expressions over ``dims`` of ``like``'s shape in one nest.  ``finish`` gets the results (three for
        welford: mean, squared deviations, count) and says what is kept, each with its dtype; it lies as ``strides``
        say."""
        reduced = tuple(axes(like.sizes)[k] for k, dim in enumerate(_named(like.sizes)) if dim in dims)
        statements: list[Statement] = []
        results: list[Expr] = []
        for kind, value, dtype in reductions:
            # Every axis that is reduced may have one element: then there is no loop, and each result is its element.
            if reduced:
                name = f"t{next(self._counter)}"
                value = _unless_never_read(value, like.sizes)
                statements.append(Reduce(name, kind, value, dtype))
                results.extend(_parts(name, kind, dtype))
            else:
                results.extend(_single(kind, value, dtype))
        outputs, body = self._kept(like, dims, finish(*results), keepdim, strides)
        passes = (Loop(reduced, tuple(statements)),) if statements else ()
        loops = (*passes, Loop((), tuple(body)))
        name = outputs[0].base or ""
        self.emit(Nest(name, like.device, axes(like.sizes), frozenset(reduced), loops, self.labels()))
        return outputs

    def scan(
        self, like: Tensor, dim: int, scans: Sequence[tuple[str, Callable[..., Expr], torch.dtype]]
    ) -> list[Tensor]:
        """Runs along ``dim`` of ``like``'s shape in one nest.  Each scan's value may use the results of those before
        it; all results are kept."""
        axis_at = positions(like.sizes)[dim].as_symbol()
        body: list[Statement] = []
        results: list[Expr] = []
        outputs: list[Tensor] = []
        for kind, value_of, dtype in scans:
            value = value_of(*results)
            if axis_at is not None:
                body.append(Scan(f"t{next(self._counter)}", kind, value, value.dtype))
                value = Result(body[-1].name, value.dtype)  # type: ignore[union-attr]
            results.append(value)
            buffer = self.buffer(like.sizes, dtype, like.device)
            index = sum((at * step for at, step in zip(positions(like.sizes), buffer.strides, strict=True)), ZERO)
            kept = cast(value, compute_dtype(dtype))
            body += [Let(buffer.name, kept), Store(buffer.name, index, Result(buffer.name, kept.dtype))]
            outputs.append(load(buffer))
        along = () if axis_at is None else (axis_at,)
        loops = (Loop(along, tuple(body)),)
        name = outputs[0].base or ""
        self.emit(Nest(name, like.device, axes(like.sizes), frozenset(along), loops, self.labels()))
        return outputs

    def _kept(
        self,
        like: Tensor,
        dims: Sequence[int],
        values: Sequence[tuple[Expr, torch.dtype]],
        keepdim: bool,
        strides: tuple[Index, ...] | None,
    ) -> tuple[list[Tensor], list[Statement]]:
        """Buffers for the kept results of a reduction, and the statements that fill them once per row."""
        kept = [(dim, size) for dim, size in enumerate(like.sizes) if keepdim or dim not in dims]
        sizes = tuple(ONE if dim in dims else size for dim, size in kept)
        where = _kept_positions(like.sizes, dims, keepdim)
        outputs: list[Tensor] = []
        body: list[Statement] = []
        for value, dtype in values:
            buffer = self.buffer(sizes, dtype, like.device, strides)
            index = sum((at * stride for at, stride in zip(where, buffer.strides, strict=True)), ZERO)
            # A store reads the value by the name of its buffer, as one of a pointwise nest does: see ``store``.
            value = cast(value, compute_dtype(dtype))
            body += [Let(buffer.name, value), Store(buffer.name, index, Result(buffer.name, value.dtype))]
            outputs.append(load(buffer))
        return outputs, body

    def call(
        self,
        target: OpOverload,
        args: Sequence[object],
        kwargs: dict[str, object],
        outputs: Sequence[Buffer | None],
        reason: str | None,
        number: Symbol | None = None,
        *,
        unimplemented: bool = False,
    ) -> None:
        """A call of a torch operator; tensors in the arguments have become ``Ref`` already."""
        self.returned.update(buffer.name for buffer in outputs if buffer is not None)
        self.emit(Call(target, tuple(args), tuple(kwargs.items()), tuple(outputs), (), reason, number, unimplemented))

    def constant(self, value: torch.Tensor, name: str | None = None) -> Tensor:
        """A tensor that the compiled graph keeps."""
        name = name or f"c{next(self._counter)}"
        if name not in self.buffers:
            value = value.resolve_conj().resolve_neg()
            self.constants[name] = value
            self.buffers[name] = Buffer(
                name, value.dtype, value.device, self.sizes.indices(value.shape), self.sizes.strides(value.stride())
            )
        return load(self.buffers[name])


def read_buffers(expr: Expr) -> frozenset[str]:
    """The buffers an expression reads."""
    return frozenset(load.buffer for load in loads(expr))


def _unless_never_read(value: Expr, domain: Sequence[Index]) -> Expr:
    """The value, or nothing that reads memory where a loop over the domain makes no step.

    A dimension without elements has no index: what is read there would be read ahead of that loop, where there is no
    memory.
    """
    if ZERO not in domain:
        return value
    return Const(False if value.dtype == torch.bool else 0.0 if value.dtype.is_floating_point else 0, value.dtype)


def _is_transposed(buffer: Buffer) -> bool:
    """True for matrices whose columns lie side by side, as products like to take them."""
    return len(buffer.sizes) >= 2 and buffer.strides[-2] == ONE != buffer.strides[-1] and ONE not in buffer.sizes[-2:]


OF_IMAGES = (3, 4, 5)  # dimensions, of sequences, of images and of volumes


def _by_its_own_axes(nest: Nest) -> Nest:
    """The nest with axes of other tensors replaced by its own.

    Where sizes vary two tensors of one shape may have it in other words, of which the tracer knows that they are equal.
    """
    own = {axis.name: axis for axis in nest.domain}
    symbols = {symbol for index in indices_of(nest.loops) for symbol in index.symbols}
    moves = {symbol: Index.of(own[symbol.name]) for symbol in symbols if own.get(symbol.name, symbol) != symbol}
    if not moves:
        return nest
    return replace(nest, loops=tuple(Loop(loop.axes, substituted(loop.body, moves)) for loop in nest.loops))


def is_dense(sizes: Sequence[Index], strides: Sequence[Index]) -> bool:
    """True if the strides place every element in a cell of its own, without gaps."""
    known = [(size.as_int(), stride.as_int()) for size, stride in zip(sizes, strides, strict=True)]
    if any(size == 0 for size, _ in known):
        return True
    if any(size is None or stride is None for size, stride in known):
        return not _overlap(sizes, strides)
    expected = 1
    for stride, size in sorted((stride or 0, size or 0) for size, stride in known if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def _overlap(sizes: Sequence[Index], strides: Sequence[Index]) -> bool:
    """True if several elements are known to share a cell, as those of windows: steps along one dimension reach no
    further than another dimension does."""
    dims = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if size != ONE]
    reaches = [(stride * (size - 1), stride) for size, stride in dims]
    pairs = itertools.permutations(reaches, 2)
    return any(stride == ZERO for _, stride in dims) or any(
        (outer[1] - inner[1]).is_nonnegative() and (inner[0] - outer[1]).is_nonnegative() for inner, outer in pairs
    )


def same_strides(sizes: Sequence[Index], left: Sequence[Index], right: Sequence[Index]) -> bool:
    """True if the strides are the same wherever there are several elements."""
    return all(size == ONE or a == b for size, a, b in zip(sizes, left, right, strict=True))


def _named(sizes: Sequence[Index]) -> list[int]:
    return [dim for dim, size in enumerate(sizes) if size != ONE]


def _kept_positions(sizes: Sequence[Index], dims: Sequence[int], keepdim: bool) -> list[Index]:
    where = positions(sizes)
    return [ZERO if dim in dims else at for dim, at in enumerate(where) if keepdim or dim not in dims]


def _parts(name: str, kind: str, dtype: torch.dtype) -> list[Expr]:
    """The expressions by which the results of a reduction are read."""
    if kind == "welford":
        return [Result(name, dtype, part) for part in ("mean", "m2", "weight")]
    return [Result(name, dtype)]


def _single(kind: str, value: Expr, dtype: torch.dtype) -> list[Expr]:
    """The results of a reduction over one element."""
    if kind == "welford":
        return [cast(value, dtype), Const(0.0, dtype), Const(1.0, dtype)]
    if kind in POSITIONS:
        return [Const(0, torch.int64)]
    if kind == "sum" and dtype.is_floating_point:  # sums start from 0, which makes one of -0
        return [apply("add", cast(value, dtype), Const(0.0, dtype))]
    return [cast(value, dtype)]
