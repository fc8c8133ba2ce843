"""The FX interpreter: every node becomes expressions, nests or a call, through the table of lowerings.

Decides what gets memory: outputs, arguments of calls, what reductions and gathers read twice, and values that are too
costly to compute in each of their users.  It does not know which nests will share a kernel.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import fx
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from inductor import costs
from inductor.deps import UNDECLARED_WRITES, gives_views
from inductor.errors import UnsupportedGraph
from inductor.ir.expr import Expr, has_checks, loads
from inductor.ir.graph import Graph
from inductor.ir.index import Index, Symbol
from inductor.ir.program import Bind, Buffer, Ref
from inductor.lowerings.attention import attend
from inductor.lowerings.context import Context
from inductor.lowerings.epilogues import multiply_and_activate
from inductor.lowerings.fallback import call_operator, written
from inductor.lowerings.in_place import InPlace, Uses, operator_in_place
from inductor.lowerings.operands import Checks, made_anew, with_what_is_left_out
from inductor.lowerings.reals import AS_KERNELS, Real, float_symbol, is_positive, real, takes_reals
from inductor.lowerings.registry import LIBRARY, LOWERINGS, OF_ANY_SIZE, Declined
from inductor.lowerings.sizes import numel
from inductor.lowerings.values import (
    COMPUTED,
    DEVICES,
    EIGHTHS,
    HALF,
    Tensor,
    as_stored,
    broadcast_to,
    convert,
    is_number,
    load,
    strided,
)
from inductor.refused import is_unimplemented
from inductor.rewrites.attention import Attention, find_attention
from inductor.rewrites.epilogues import Epilogue, find_epilogues
from inductor.rewrites.layouts import image_layouts
from inductor.rewrites.redundant import find_redundant
from inductor.rewrites.views import behind_outputs, is_view, reads_memory
from inductor.torch_versions import OpOverload, aten, pytree, schema_of
from inductor.worth_memory import CONVERSIONS, deserves_memory, is_rounded

SIZES = (aten.sym_size.int, aten.sym_stride.int, aten.sym_numel.default)
"""The operators that read a size, stride or number of elements."""


def lower(
    gm: GraphModule,
    example_inputs: Sequence[object] = (),
    name: str = "graph",
    fused_random: bool = False,
    epilogues: bool = True,
) -> Graph:
    """The graph as nests and calls in program order.  Every node carries the tracer's ``meta['val']``.  With
    ``epilogues`` the library's matrix products take activations along."""
    return _Lowerer(gm, name, fused_random, epilogues).run()


_SIZED_BY_FLOATS = frozenset({aten.arange.default, aten.arange.start, aten.arange.start_step})
"""Operators whose results may be of a length that is computed of floats, in ways that are not described here."""


@dataclass(frozen=True, slots=True)
class _Call:
    """An operator and the values it is called on.  ``metas`` are its result tensors as the tracer saw them;
    ``data_dependent`` where their length is known only from the results themselves."""

    node: Node
    target: OpOverload
    args: Any
    kwargs: Any
    metas: Sequence[torch.Tensor]
    data_dependent: bool


class _Lowerer:
    """The interpreter of one graph, with the value of every node lowered so far."""

    def __init__(self, gm: GraphModule, name: str, fused_random: bool, epilogues: bool) -> None:
        self.gm, self.name = gm, name
        self.ctx = Context(fused_random=fused_random)
        # What each node has become; the same dict, as lowerings that look ahead ask the context.
        self.env: dict[Node, Any] = self.ctx.values
        self.inputs: list[Buffer | Symbol | None] = []
        self.binds: list[Bind] = []
        # By buffer, the nodes without memory that will read it wherever they are used.
        self.lazy_readers: dict[str, list[Node]] = {}
        # Users of duplicate nodes count for the one that stands for them.
        self.more_users: Counter[Node] = Counter()
        self.attention: Mapping[Node, Attention] = {}
        self.forms: dict[Node, Callable[[Node], Any]] = {}
        # Products whose activation the library computes along, by the node of the product.
        self.epilogues: Mapping[Node, Epilogue] = find_epilogues(gm.graph) if epilogues else {}
        self.lowered: Counter[str] = Counter()
        self.checks = Checks(self.ctx)
        self.same: Mapping[Node, Node] = {}
        self.needs_memory = behind_outputs(gm.graph, reads_memory)
        self.ctx.layouts = image_layouts(gm.graph, LOWERINGS)
        self.needs_memory = self.needs_memory.union(_numbers_for_gpus(gm.graph))

    def run(self) -> Graph:
        outputs: tuple[Any, ...] = ()
        redundant = find_redundant(self.gm.graph)
        self.same = redundant.same
        for node, first in redundant.same.items():
            self.more_users[first] += len(node.users)
        self.ctx.shared = frozenset([*redundant.same, *redundant.same.values()])
        # A node that stands for others has readers besides its own: no form takes it away from them.
        apart = (
            (node, each) for node, each in self.epilogues.items() if self.ctx.shared.isdisjoint((node, *each.between))
        )
        self.epilogues = dict(apart)
        self.attention = find_attention(self.gm.graph, redundant)
        self.forms = dict.fromkeys(self.attention, self._attend)
        self.forms |= {node: self._multiply_and_activate for node in self.epilogues if node not in self.forms}
        # Nodes that a bigger form stands for (attention, an epilogue) are never lowered by themselves.
        unread = redundant.dead.union(*(attention.inside for attention in self.attention.values()))
        unread = unread.union(*(epilogue.between for epilogue in self.epilogues.values()))
        for node in self.gm.graph.find_nodes(op="placeholder"):
            if isinstance(value := node.meta.get("val"), torch.SymInt):
                # Before anything is described by it: an integer input may be negative, which no later question would
                # find out.
                self.ctx.sizes.given(value)
        for node in self.gm.graph.nodes:
            if node in unread:
                continue
            if node in redundant.same:
                self.env[node] = self.env[redundant.same[node]]
            elif node.op == "placeholder":
                self.env[node] = self._placeholder(node)
            elif node.op == "get_attr":
                self.env[node] = self._attribute(node)
            elif node.op == "output":
                outputs = self._outputs(node)
            else:
                self.env[node] = self._settle(node, self._call(node))
                self.checks.note(self.env[node])
                # Nobody reads it, but computing it may raise (a position out of range), as eager would.
                if node in redundant.unread:
                    self._compute_what_checks(self.env[node])
        self.checks.make_up()
        return Graph(
            self.name, tuple(self.inputs), self.ctx.constants, self.ctx.buffers, self.ctx.views, tuple(self.binds),
            tuple(self.ctx.operations), outputs, frozenset(self.ctx.mutated), dict(self.lowered),
            frozenset(self.ctx.partial), self.ctx.aliases,
        )  # fmt: skip

    # -- what comes in ------------------------------------------------------------------------------------------------

    def _placeholder(self, node: Node) -> Any:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            sizes, strides = self.ctx.sizes.indices(value.shape), self.ctx.sizes.strides(value.stride())
            buffer = Buffer(node.name, value.dtype, value.device, sizes, strides)
            self.ctx.buffers[buffer.name] = buffer
            self.inputs.append(buffer)
            self._bind_sizes(buffer)
            return load(buffer)
        if isinstance(value, torch.SymInt):
            index = self.ctx.sizes.index(value)
            symbol = index.as_symbol()
            self.inputs.append(symbol)
            # The first input that has a size tells it.
            if symbol is not None and symbol not in {bind.symbol for bind in self.binds}:
                self.binds.append(Bind(symbol, node.name, None))
            return index
        self.inputs.append(None)
        if isinstance(value, torch.SymFloat):
            return self._float_input(value)
        if isinstance(value, torch.SymBool):
            raise UnsupportedGraph(f"{node.name}, a truth known only at run time")
        return value

    def _float_input(self, value: torch.SymFloat) -> Real:
        """A float input, passed to kernels as the integer of its bits: beside pointers they take integers only."""
        if not value.node.expr.is_Symbol:  # it is made of sizes
            return real(self.ctx.sizes, value)
        symbol, number = float_symbol(value)
        self.binds.append(Bind(symbol, f"input{len(self.inputs) - 1}", None, "bits"))
        return number

    def _bind_sizes(self, buffer: Buffer) -> None:
        """Binds every symbol that is a size or stride of the input, unless an earlier input has bound it."""
        known = {bind.symbol for bind in self.binds}
        for what, values in (("size", buffer.sizes), ("stride", buffer.strides)):
            for dim, value in enumerate(values):
                symbol = value.as_symbol()
                if symbol is not None and symbol not in known:
                    known.add(symbol)
                    self.binds.append(Bind(symbol, buffer.name, dim, what))

    def _attribute(self, node: Node) -> Any:
        value: Any = self.gm
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if not isinstance(value, torch.Tensor):
            raise UnsupportedGraph(f"attribute {node.target} is a {type(value).__name__}, not a tensor")
        return self.ctx.constant(value.detach(), f"c_{node.name}")

    # -- one node -----------------------------------------------------------------------------------------------------

    def _call(self, node: Node) -> Any:
        # A lowering that looked ahead did it along: what follows a normalisation, an activation.
        if node in self.ctx.done:
            return self.ctx.done[node]
        if (form := self.forms.get(node)) is not None:
            return form(node)
        args, kwargs = self._values(node.args), self._values(node.kwargs)
        # Getting an item of several results, or arithmetic of sizes.
        if node.op != "call_function" or not isinstance(node.target, OpOverload):
            return args[0][args[1]] if node.target is operator.getitem else self._on_sizes(node, args)
        metas = [leaf for leaf in pytree.tree_leaves(node.meta.get("val")) if isinstance(leaf, torch.Tensor)]
        data_dependent = node.target in _SIZED_BY_FLOATS and self.ctx.sizes.learn(metas)
        self.ctx.begin(node, metas)
        call = _Call(node, node.target, args, kwargs, metas, data_dependent)
        if (operator_that_writes := operator_in_place(node)) is not None:
            return self.in_place.call(node, operator_that_writes, kwargs)
        return _OWN.get(call.target, _Lowerer._by_table)(self, call)

    def _by_table(self, call: _Call) -> Any:
        """Lowers the call through the table, or calls torch's own operator where there is a reason."""
        for why in _REASONS:
            if reason := why(self, call):
                return self._fall_back(call, reason, unimplemented=why is _is_refused_by_torch)
        args = with_what_is_left_out(self.ctx, call.target, call.args)
        last = self.ctx.operations[-1:]
        result = LOWERINGS[call.target](self.ctx, *args, **call.kwargs)
        # What a lowering may have emitted before it declined has no reader, and the scheduler drops it.
        if isinstance(result, Declined):
            return self._fall_back(replace(call, args=args), result.reason)
        self.lowered[str(call.target)] += 1
        return result if gives_views(call.target) else made_anew(self.ctx, (args, call.kwargs), result, last)

    def _attend(self, node: Node) -> Any:
        self.ctx.begin(node, [node.meta["val"]])
        return attend(self.ctx, self.attention[node])

    def _multiply_and_activate(self, node: Node) -> None:
        epilogue = self.epilogues[node]
        self.ctx.done[epilogue.activation] = multiply_and_activate(self.ctx, epilogue)

    def _of_data_dependent_size(self, call: _Call) -> Any:
        """A call whose result has a length computed of floats: torch's operator runs, and the length is read from the
        result."""
        if not call.data_dependent:
            return self._by_table(call)
        result = self._fall_back(call, "a length computed of floats")
        self.ctx.sizes.to_read = []
        return result

    def _writing_statistics(self, call: _Call) -> Any:
        """Calls a normalization that updates its running statistics, of which its schema says nothing."""
        self._before_writing(call.args[3:5], {})
        return self._by_table(call)

    def _on_sizes(self, node: Node, args: object) -> Any:
        """The result of arithmetic on sizes, which the tracer has computed already."""
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            return self.ctx.sizes.index(value)
        if isinstance(value, torch.SymFloat):
            self._check_divisor(node)
            return real(self.ctx.sizes, value)
        if isinstance(value, bool | int | float):
            return value
        raise UnsupportedGraph(f"{node.target} of {node.name} is no tensor operator")

    def _check_divisor(self, node: Node) -> None:
        """Emits a check of a number that the program divides by and that may be 0: Python raises there, and neither
        kernels nor library calls do."""
        divides = node.target is operator.truediv and not node.meta.get(AS_KERNELS)
        given = node.args[1] if divides else 1
        if is_positive(self.ctx.sizes, given.meta["val"] if isinstance(given, Node) else given):
            return
        divisor = self._values(given)
        number = divisor.expr if isinstance(divisor, Real) else divisor
        self.ctx.call(aten._assert_scalar.default, (number, "division by zero"), {}, [], None)

    def _values(self, structure: object) -> Any:
        if isinstance(structure, Node):
            value = self.env[structure]
            return self.ctx.current(value) if isinstance(value, Tensor) else value
        if isinstance(structure, list | tuple):
            return type(structure)(self._values(item) for item in structure)
        if isinstance(structure, dict):
            return {key: self._values(item) for key, item in structure.items()}
        if isinstance(structure, slice):
            raise UnsupportedGraph("slices as arguments of operators")
        return structure

    def _fall_back(self, call: _Call, reason: str, *, unimplemented: bool = False) -> Any:
        node = call.node
        if schema_of(call.target).is_mutable:
            self._before_writing(call.args, call.kwargs)
        if isinstance(node.meta.get("val"), torch.SymInt) and call.target in SIZES:
            return self.ctx.sizes.index(node.meta["val"])
        return call_operator(self.ctx, node, call.args, call.kwargs, reason, unimplemented=unimplemented)

    def _settle(self, node: Node, value: object) -> Any:
        """Gives the value memory where that is better than computing it in every user; else notes the buffers it will
        read, for ``_before_writing``."""
        labels = self.ctx.labels(node)
        if not isinstance(value, Tensor):
            return value  # of several, each has the layout of the node that takes it out
        self.ctx.own(value, node)
        if value.base is not None:
            return value
        users = len(node.users) + self.more_users[node]
        if value.dtype in HALF and is_rounded(node, users):
            value = as_stored(value)  # as one number: half precision minus its own maximum is zero
        partial = self._makes_much_wait(node, value)
        if partial or node in self.needs_memory or deserves_memory(node, value, users):
            value = self.ctx.realize(value, self.ctx.strides_of(node))
            if partial and value.base is not None:
                self.ctx.partial.add(value.base)
        else:
            self.ctx.origins[node] = labels
            for buffer in {read.buffer for read in loads(value.expr)}:
                self.lazy_readers.setdefault(buffer, []).append(node)
        return value

    def _compute_what_checks(self, value: object) -> None:
        """Gives memory to a value that nobody reads, if computing it may raise as it does in eager."""
        for part in pytree.tree_leaves(value, is_leaf=lambda leaf: isinstance(leaf, Tensor)):
            if isinstance(part, Tensor) and part.base is None and has_checks(part.expr):
                self.ctx.realize(part)

    def _makes_much_wait(self, node: Node, value: Tensor) -> bool:
        """True if the terms of a sum, results of library calls, would occupy much memory until all of them are there:
        the gradients of a weight that is used in every step."""
        if node.target is not aten.add.Tensor or not any(map(_adds_another_product, node.users)):
            return False
        waiting = {read.buffer for read in loads(value.expr)} & self.ctx.returned
        sizes = [numel(self.ctx.buffers[name].sizes).as_int() or 0 for name in waiting]
        return len(waiting) > 1 and sum(sizes) * value.dtype.itemsize > costs.ANY.most_waiting

    def _strides(self, node: Node) -> tuple[Index, ...] | None:
        meta = node.meta.get("val")
        return self.ctx.sizes.strides(meta.stride()) if isinstance(meta, torch.Tensor) else None

    @cached_property
    def in_place(self) -> InPlace:
        inputs = frozenset(given.name for given in self.inputs if isinstance(given, Buffer))
        return InPlace(self.ctx, Uses.of(self.gm.graph, self.same), inputs, self._before_writing)

    # -- writes -------------------------------------------------------------------------------------------------------

    def _copy_into(self, call: _Call) -> Any:
        """``copy_`` into an input: a store into its memory, after everything that reads the old elements."""
        node, (target, source) = call.node, call.args[:2]
        if reason := _beyond_kernels(node, [node.meta["val"]]):
            return self._copied_as_it_is(node, target, source, reason)
        there = target.device == source.device or is_number(source)
        if target.base is None or strided(target) is None or not there:
            raise UnsupportedGraph(f"{node.name} writes to a tensor that is not a window on an input")
        value = broadcast_to(convert(source, target.dtype), target.sizes).expr
        if value == target.expr:  # a call has written there already
            return target
        if has_checks(value) or self._reads_elsewhere(value, target):  # all of which comes before the first write
            value = self.ctx.realize(replace(target, expr=value, base=None)).expr
        self._before_writing([target], {})
        self.ctx.mutated.add(target.base)
        self.ctx.store(target, value)
        return target

    def _reads_elsewhere(self, value: Expr, target: Tensor) -> bool:
        """True if ``value`` reads the memory it is to be written to at another element than the one written, as in
        ``x.copy_(x.flip(0))``, or through a view that only the call which returned it knows."""
        place, aliases = next(loads(target.expr)), self.ctx.aliases
        return any(aliases.get(read.buffer, read.buffer) == target.base and read != place for read in loads(value))

    def _copied_as_it_is(self, node: Node, target: Tensor, source: Tensor, reason: str) -> Tensor:
        """The copy as torch's own operator."""
        self._before_writing([target], {})
        place = self.ctx.ref(target)
        self.ctx.call(aten.copy_.default, [place, self.ctx.ref(source)], {}, [None], reason)
        self.ctx.mutated.update(written(self.ctx, aten.copy_.default, [place], {}))
        return target

    def _before_writing(self, args: object, kwargs: object, needed: Callable[[Node], bool] = lambda _: True) -> None:
        """Gives memory to pending values that read a buffer about to be written and are needed later: they must see its
        old elements."""
        values = pytree.tree_leaves((args, kwargs), is_leaf=lambda leaf: isinstance(leaf, Tensor))
        for base in {value.base for value in values if isinstance(value, Tensor) and value.base is not None}:
            views = [name for name, viewed in self.ctx.aliases.items() if viewed == base]
            for name in (base, *views):
                self.checks.make_up(name)
            for reader in (reader for name in (base, *views) for reader in self.lazy_readers.pop(name, [])):
                value = self.env.get(reader)
                later = needed(reader) and any(user not in self.env for user in reader.users)
                if isinstance(value, Tensor) and later:
                    self.env[reader] = self.ctx.realize(value)

    # -- what goes out ------------------------------------------------------------------------------------------------

    def _outputs(self, node: Node) -> tuple[Any, ...]:
        return tuple(self._output(result) for result in pytree.tree_leaves(node.args[0]))

    def _output(self, result: object) -> Any:
        """An output as a buffer with eager's strides, a number, or None."""
        if not isinstance(result, Node):
            return result
        value = self._values(result)
        if isinstance(value, Real):
            return value.expr
        if not isinstance(value, Tensor):
            return value
        wanted = self._strides(result)
        value = self.ctx.realize(value, wanted, gaps=True)
        layout = strided(value)
        # A value in memory with other strides than eager's is copied into memory with those.
        if layout is None or not _agree(value.sizes, layout[0], wanted):
            value = self.ctx.realize(replace(value, base=None), wanted, gaps=True)
        elif wanted is not None and value.base is not None:
            return self._window(value, wanted, layout[1], made=not _may_be_view(result))
        return self.ctx.ref(value)

    def _window(self, value: Tensor, wanted: tuple[Index, ...], offset: Index, made: bool) -> Ref:
        """The output with exactly the strides eager has, also along dimensions of size 1; ``made``: by no view."""
        assert value.base is not None
        base = self.ctx.buffers[value.base]
        if offset == 0 and base.sizes == value.sizes and base.strides == wanted and base.dtype == value.dtype:
            return Ref(base.name)
        inputs = (given.name for given in self.inputs if isinstance(given, Buffer))
        own = made and base.name not in self.ctx.constants and base.name not in inputs
        return Ref(self.ctx.window(base.name, value, wanted, offset, own))


# -- the table --------------------------------------------------------------------------------------------------------


def _has_no_lowering(lowerer: _Lowerer, call: _Call) -> str:
    """The reason for an operator that the table does not have."""
    return "" if call.target in LOWERINGS else "no lowering"


def _has_strange_operands(lowerer: _Lowerer, call: _Call) -> str:
    """The reason for operands that kernels cannot read, or results that they cannot write."""
    return _beyond_kernels(call.node, call.metas)


def _has_numbers_alone(lowerer: _Lowerer, call: _Call) -> str:
    """The reason for numbers where the operator takes tensors: nothing says on which device to compute.  It happens
    where an ``out=`` became a copy."""
    if not call.args or any(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves((call.args, call.kwargs))):
        return ""
    tensor_wanted = str(schema_of(call.target).arguments[0].type) == "Tensor"
    return "numbers where tensors are expected" if tensor_wanted else ""


def _takes_any_number(lowerer: _Lowerer, call: _Call) -> str:
    """The reason for a size or position of which nothing is known, where the lowering does not allow for that: it may
    be negative or out of range, which torch's kernel will check."""
    target = call.target
    if target in OF_ANY_SIZE or not lowerer.ctx.sizes.some_unbounded() or "SymInt" not in str(schema_of(target)):
        return ""
    leaves = pytree.tree_leaves((call.args, call.kwargs))
    unknown = any(isinstance(leaf, Index) and leaf.unbounded for leaf in leaves)
    return "a size or position that is known only when it runs" if unknown else ""


def _is_refused_by_torch(lowerer: _Lowerer, call: _Call) -> str:
    """The reason for dtypes that torch's own kernel does not implement: its error is the user's."""
    node = call.node
    given = map_arg((node.args, node.kwargs), lambda each: each.meta.get("val"))
    return "a dtype that torch's own kernel does not implement" if is_unimplemented(call.target, *given) else ""


def _takes_a_float_as_it_runs(lowerer: _Lowerer, call: _Call) -> str:
    """The reason for a float known only at run time, in a place where the lowering needs its value."""
    taken = takes_reals(call.target, (*call.args, *call.kwargs.values()))
    return "" if taken else "a float that is known only when it runs"


def _takes_a_wide_number(lowerer: _Lowerer, call: _Call) -> str:
    """The reason for arithmetic on numbers that may leave the 64 bits that kernels have: Python computes it."""
    named = zip(schema_of(call.target).arguments, call.args, strict=False)
    given = [(argument, value) for argument, value in named if isinstance(value, Index)]
    given += [(a, call.kwargs[a.name]) for a in schema_of(call.target).arguments if a.name in call.kwargs]
    wide = any(
        isinstance(value, Index) and "Int" not in str(argument.type) and not lowerer.ctx.sizes.fits(value)
        for argument, value in given
    )
    return "a number that may have more than 64 bits" if wide else ""


_REASONS: tuple[Callable[[_Lowerer, _Call], str], ...] = (
    _has_no_lowering,
    _has_strange_operands,
    _has_numbers_alone,
    _takes_any_number,
    _is_refused_by_torch,
    _takes_a_float_as_it_runs,
    _takes_a_wide_number,
)
"""The reasons to run torch's own operator, asked in this order; each is "" where it does not apply."""


_OWN: Mapping[Any, Callable[[_Lowerer, _Call], Any]] = {
    aten.copy_.default: _Lowerer._copy_into,
    **dict.fromkeys(_SIZED_BY_FLOATS, _Lowerer._of_data_dependent_size),
    **dict.fromkeys(UNDECLARED_WRITES, _Lowerer._writing_statistics),
}
"""Operators that are more than values of their arguments: they write, or their size is read from their result."""


def _beyond_kernels(node: Node, metas: Sequence[torch.Tensor]) -> str:
    """The reason why no kernel takes part: an operand that is no plain strided tensor, has a dtype without kernels, or
    lies on another device; "" where there is none."""
    inputs = [arg.meta.get("val") for arg in node.all_input_nodes]
    tensors = [value for value in (*metas, *inputs) if isinstance(value, torch.Tensor)]
    if not all(value.layout == torch.strided and value.device.type in DEVICES for value in tensors):
        return "a tensor of a device or a layout that has no kernels"
    if len({value.device for value in tensors if value.ndim or value.device.type != "cpu"}) > 1:
        return "operands on several devices"  # torch moves positions to the device of what they are positions in
    strange = [value for value in tensors if value.dtype not in COMPUTED]
    if not strange:
        return ""
    converted = node.target in CONVERSIONS and all(value is inputs[0] for value in strange)
    return "" if converted and _is_readable(strange[0]) else "a tensor of a dtype that has no kernels"


def _numbers_for_gpus(graph: fx.Graph) -> Iterator[Node]:
    """Nodes that are 0-d CPU tensors read by an operator on a GPU: they get memory, so that a kernel is given their
    value."""
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.device.type == "cpu" and not value.ndim:
            used = (leaf for user in node.users for leaf in pytree.tree_leaves(user.meta.get("val")))
            if any(isinstance(leaf, torch.Tensor) and leaf.device.type == "cuda" for leaf in used):
                yield node


def _adds_another_product(node: Node) -> bool:
    """True for a sum whose second term is a view of a library call's result."""
    if node.target is not aten.add.Tensor:
        return False
    term = node.args[1]
    while isinstance(term, Node) and is_view(term):
        term = term.args[0]
    return isinstance(term, Node) and term.target in LIBRARY


def _is_readable(value: torch.Tensor) -> bool:
    """True for eight-bit floats on GPUs that have instructions to convert them."""
    if value.dtype not in EIGHTHS or value.device.type != "cuda":
        return False
    return not torch.cuda.is_available() or torch.cuda.get_device_capability(value.device) >= (8, 9)


def _may_be_view(node: Node) -> bool:
    """True where eager's result is a view, or the operator does not say."""
    target = node.target
    return not isinstance(target, OpOverload) or any(result.alias_info for result in schema_of(target).returns)


def _agree(sizes: Sequence[Index], have: Sequence[Index], want: Sequence[Index] | None) -> bool:
    """True if the strides are the wanted ones wherever that matters: not along dimensions of size 1, nor in empty
    tensors."""
    if want is None or any(size == 0 for size in sizes):
        return True
    return all(size == 1 or a == b for size, a, b in zip(sizes, have, want, strict=True))
