"""The recorder: a dispatch mode under autograd and functionalization that writes down every operator that runs.

It sees functional ATen operators on fake tensors, in the order in which forward and then backward execute them, and
keeps for each tensor the node that made it.  One recorder makes one graph, so nothing has to be traced twice.
Must not know: what is an input, what is mutated, what is differentiated.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeGuard

import torch
from torch import fx

from aotgrad.errors import BadGraph, Unsupported
from aotgrad.random_operators import draws
from aotgrad.recording.custom_ops import in_place
from aotgrad.recording.draws import Draws, all_dropped, dropout_scale, in_memory_order, printable
from aotgrad.recording.histories import Histories
from aotgrad.recording.lost_writes import BY_STRIDES, WINDOWS, refuse_lost_writes
from aotgrad.recording.memory_order import (
    corrected,
    has_gaps,
    in_this_call,
    may_be_laid_out,
    order_of,
    refuse_normal,
)
from aotgrad.recording.recomputed import REPEATS
from aotgrad.recording.refused_by_fakes import taken
from aotgrad.recording.watched_views import Watched
from aotgrad.recording.whole_operators import note_whole
from aotgrad.roles import MAY_RAISE
from aotgrad.tensors import functional
from aotgrad.tensors.dense import oddity
from aotgrad.tensors.fakes import Fakes
from aotgrad.tensors.subclasses import Wrapping
from aotgrad.tensors.symbols import SYM_TYPES, SizeNodes
from aotgrad.torch_versions import (
    DisablePythonDispatcher,
    DisableTorchFunction,
    FakeTensor,
    FakeTensorMode,
    OpOverload,
    TorchDispatchMode,
    aten,
    current_autograd_node,
    dispatch_has_kernel_for_dispatch_key,
    schema_of,
)

Decompositions = Mapping[OpOverload, Callable[..., Any]]

_QUERIES = frozenset(
    {
        torch.ops.prim.device.default, aten.sym_size.int, aten.sym_stride.int, aten.sym_numel.default,
        aten.size.default, aten.sym_size.default, aten.sym_stride.default, aten.sym_storage_offset.default,
    }
)  # fmt: skip
"""Operators that only read a tensor's metadata."""
# Kernels that write to running statistics while their schema denies it: where those are passed, and for which flag.
_WRITES_IN_SECRET = {
    aten.native_batch_norm.default: (3, 5),
    aten.cudnn_batch_norm.default: (3, 5),
    aten.miopen_batch_norm.default: (3, 5),
    aten.batch_norm_gather_stats.default: (3, None),
    aten.batch_norm_gather_stats_with_counts.default: (3, None),
    aten.batch_norm_update_stats.default: (1, None),
}
_KERNEL_KEYS = ("CPU", "CUDA", "Meta", "CompositeExplicitAutograd")
"""Dispatch keys whose kernels make an operator more than a composition of others."""
_LIFTS = frozenset({aten.lift.default, aten.lift_fresh.default, aten.lift_fresh_copy.default})
OWN_AUTOCAST = "own autocast"
"""The key in the ``meta`` of a node of backward whose mode of autocast is the program's, wherever it is called."""


@dataclass(slots=True)
class Opened:
    """A tensor subclass object that autograd follows, and the tensors within, which the graph knows."""

    value: torch.Tensor
    inner: list[torch.Tensor]
    gradient: Wrapping | None = None


class Recorder(TorchDispatchMode):
    """Runs each operator on fake tensors and appends it to `graph`."""

    def __init__(self, fake_mode: FakeTensorMode, decompositions: Decompositions) -> None:
        super().__init__()
        self.graph = fx.Graph()
        self.root = torch.nn.Module()
        self.sizes = SizeNodes(self.graph)
        self.phase = "forward"
        self.source: fx.Node | None = None
        self.autocast_depth = 0  # in which backward is traced
        self.fake_mode = fake_mode
        self._fakes = Fakes(fake_mode)
        self.draws = Draws()
        self.until_traced = ExitStack()  # what a program needs in force while backward is traced, too
        self.layouts: dict[int, torch.Tensor] = {}  # of inputs, by the id of what the program sees
        self.arrived: dict[Any, torch.Tensor] = {}  # what the program sees of inputs with a history, by its end here
        self.view_versions: dict[int, tuple[torch.Tensor, int]] = {}  # of views the program made, when it made them
        self.watched = Watched()
        self.opened_leaves: list[Opened] = []
        self.opened_results: list[Opened] = []
        self.taken: set[OpOverload] = set()  # kinds of views that are hard to write through, of those the program took
        self.histories = Histories(self.node_of)
        self._recording = True
        self._decompositions = decompositions
        self._running: set[OpOverload] = set()
        self._written: Sequence[Sequence[torch.Tensor]] = ()
        self._composite: dict[OpOverload, bool] = {}
        self._nodes: dict[int, tuple[torch.Tensor, fx.Node]] = {}
        self._values: dict[fx.Node, fx.Node] = {}  # without the gaps that `_as_written` laid between them
        self._constants: dict[int, tuple[torch.Tensor, fx.Node, FakeTensor]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would otherwise wrap every dispatched call in a guard against its own compiler

    # -- inputs and results -------------------------------------------------------------------------------------

    def add_input(self, name: str, value: object) -> fx.Node:
        """A new placeholder, whenever it is needed: placeholders stay ahead of all other nodes."""
        with self._ahead_of_operators():
            node = self.graph.placeholder(name)
        node.meta.update(val=value, phase=self.phase)
        if isinstance(value, torch.Tensor):
            self._remember(value, node)
        return node

    def _ahead_of_operators(self) -> AbstractContextManager[None]:
        first = next((node for node in self.graph.nodes if node.op != "placeholder"), None)
        return nullcontext() if first is None else self.graph.inserting_before(first)

    def node_of(self, value: torch.Tensor) -> fx.Node:
        """The node that made this tensor; a tensor from outside becomes a constant of the graph."""
        known = self._nodes.get(id(value))
        return known[1] if known is not None else self._constant(value)[0]

    def values_of(self, value: torch.Tensor) -> fx.Node:
        """The node of `node_of`, or its source without gaps, for copies into existing memory, where its layout does not
        matter."""
        node = self.node_of(value)
        return self._values.get(node, node)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Runs code without recording it."""
        self._recording = False
        try:
            yield
        finally:
            self._recording = True

    @contextmanager
    def writing(self, values: Sequence[torch.Tensor]) -> Iterator[None]:
        """Has the results that operators compute from these values laid out like them, since they take their place."""
        before, self._written = self._written, [values]
        try:
            yield
        finally:
            self._written = before

    # -- operators ----------------------------------------------------------------------------------------------

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> Any:
        written = next((each for each in self._written if args and _are(args[0], each)), None)
        # A view takes nobody's place: it shows memory that is there.
        if written is None or _makes_views(func):
            return self._dispatched(func, args, kwargs or {})
        # Operators that lay the result out are not to be laid out themselves.
        before, self._written = self._written, ()
        try:
            result = self._dispatched(func, args, kwargs or {})
            if not self._recording:
                return result
            made = result if _is_list(result) else [result]
            laid = [self._as_written(*pair) for pair in zip(written, made, strict=False)]  # noise may come along
            before = [*before, laid]  # which may be written to next
            return [*laid, *made[len(laid) :]] if _is_list(result) else laid[0]
        finally:
            self._written = before

    def _dispatched(self, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if func in _QUERIES or not self._recording:
            return func(*args, **kwargs)
        func = printable(func, args)
        if func is aten.bernoulli.p and not args[0].is_contiguous():
            with self:
                return in_memory_order(*args, **kwargs)
        if func is aten.native_dropout.default and args[1] == 1 and args[2]:
            with self:
                return all_dropped(args[0])
        if func is aten.view_as_real.default and args[0].is_conj():
            # A base whose conjugate was written to is the conjugate of what was written, which has no such view.
            with self:
                args = (args[0].resolve_conj(),)
        if func is aten.detach.default and self.phase == "backward" and _is_kept_by_checkpoint():
            func = aten.alias.default
        if func is aten._efficientzerotensor.default and current_autograd_node() is not None:
            func = aten.zeros.default  # what comes of those without memory, in a formula of torch's own, may crash it
        if func in BY_STRIDES | WINDOWS and current_autograd_node() is None:
            self.taken.add(func)
        refuse_lost_writes(func, args, self.taken)
        decomposed = self._decompose(func, args, kwargs)
        if decomposed is not NotImplemented:
            return decomposed
        self._refuse_secret_writes(func, args)
        if func is aten.normal_functional.default:
            refuse_normal(args[0])
        is_random = draws(func)
        if is_random and not self.draws.is_new():
            return self._draw_again(func, args)
        # The number in a tensor from outside is known.
        if func is aten._local_scalar_dense.default and not isinstance(args[0], FakeTensor):
            return func(*args)
        result = self._of_fakes(func, args, kwargs)
        if isinstance(result, (bool, int, float)):  # known from the shapes: which kernel suits, how many of something
            return result
        if self.phase == "forward":
            self.histories.enter(self.graph, self._encode)
        # The program may write to a tensor that it makes of constants: each call gets a copy.
        written = aten.lift_fresh_copy.default if func is aten.lift_fresh.default else func
        node = self.graph.create_node(
            "call_function", written, self._encode(args), self._encode(kwargs), func.overloadpacket.__name__
        )
        self._annotate(node, result)
        if (original := in_place(func)) is not None:
            node.meta["in_place"] = original  # for compilers that know when nobody needs the old values
        self._bind_result(node, result)
        if is_random:
            self.draws.made(func, result)
        return result

    def _draw_again(self, func: OpOverload, args: Sequence[Any]) -> Any:
        """The result of a random operator in a region that a checkpoint runs again: the numbers drawn before, as a
        value that backward saves."""
        if self.phase == "forward":
            raise Unsupported(f"{func} draws the same numbers twice", "restore the generator outside of the graph")
        drawn = self.draws.repeat(func)
        if func is not aten.native_dropout.default:
            return drawn
        with self:
            again = aten.native_dropout_backward.default(args[0], drawn[1], dropout_scale(args[1]))
        self.node_of(again).meta[REPEATS] = self.node_of(drawn[0])
        return again, drawn[1]

    def _refuse_secret_writes(self, func: OpOverload, args: Sequence[object]) -> None:
        if func in _WRITES_IN_SECRET:
            statistics, flag = _WRITES_IN_SECRET[func]
            if args[statistics] is not None and (flag is None or args[flag]):
                raise Unsupported(f"{func} updates running statistics behind autograd's back", "call torch.batch_norm")

    def _decompose(self, func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
        rule = self._decompositions.get(func)
        if rule is not None and func not in self._running:
            self._running.add(func)  # a rule may end in its own operator, which is then left as it is
            try:
                encoded = (self._encode(args), self._encode(kwargs)) if self.histories.leaves else None
                last = next(iter(reversed(self.graph.nodes)), None)
                result = self._run_rule(rule, args, kwargs)
                if result is not NotImplemented:
                    result = self._laid_out(func, args, kwargs, result)
                    if encoded is not None:
                        note_whole(func, *encoded, self._made(result), last)
                    return result
            finally:
                self._running.discard(func)
        if self._is_composite(func):
            with self:
                return func.decompose(*args, **kwargs)
        return NotImplemented

    def _made(self, result: object) -> list[fx.Node | None]:
        """The nodes of an operator's results, None for what is no tensor."""
        several = result if isinstance(result, (tuple, list)) else [result]
        return [self.node_of(each) if isinstance(each, torch.Tensor) else None for each in several]

    def _laid_out(self, func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object], result: object) -> Any:
        """The result of a decomposition in the layout that the operator itself gives, which shows in views by
        strides."""
        several = result if isinstance(result, (tuple, list)) else (result,)
        if schema_of(func).is_mutable or not any(isinstance(each, torch.Tensor) and each.dim() > 1 for each in several):
            return result
        found: Any = several
        if self.fake_mode.shape_env is not None:
            called = in_this_call((args, kwargs, list(several)), self.fake_mode)
            if called is None:
                return result
            args, kwargs, found = called
        if not any(isinstance(each, torch.Tensor) and may_be_laid_out(args, each) for each in found):
            return result
        with DisablePythonDispatcher():
            own = self._of_fakes(func, args, kwargs)
        if not isinstance(result, (tuple, list)):
            return self._in_order_of(own, found[0], result)
        make = getattr(type(result), "_make", type(result))  # a named tuple has `_make`
        return make(map(self._in_order_of, own, found, result))

    def _in_order_of(self, own: object, found: object, result: Any) -> Any:
        """The result, which lies like `found`, in the order of the operator's own."""
        order = order_of(own, found) if isinstance(found, torch.Tensor) else None
        return result if order is None else self._moved(result, order)

    def _moved(self, result: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
        """A copy of the result, in memory ordered from the outermost dimension to the innermost."""
        with self:
            moved = result.permute(order).clone(memory_format=torch.contiguous_format)
            return moved.permute([order.index(dim) for dim in range(len(order))])

    def _as_written(self, written: torch.Tensor, result: object) -> Any:
        """The result laid out as the value whose place it takes: later questions, such as whether it is contiguous, are
        about that."""
        if not isinstance(result, torch.Tensor) or result.shape != written.shape or result.dtype != written.dtype:
            return result
        if has_gaps(written):
            with self:  # torch's kernel copies the value with its gaps, and then writes all of it
                spread: torch.Tensor = aten.slice_scatter.default(written, result)
            self._values[self.node_of(spread)] = self.node_of(result)
            return spread
        called = in_this_call((written, result), self.fake_mode)
        order = None if called is None else order_of(*called)
        return result if order is None else self._moved(result, order)

    def _run_rule(self, rule: Callable[..., Any], args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
        before = len(self.graph.nodes)
        with self:
            result = rule(*args, **kwargs)
        written = list(islice(reversed(self.graph.nodes), len(self.graph.nodes) - before))
        if not any(isinstance(n.target, OpOverload) and schema_of(n.target).is_mutable for n in written):
            return result
        # A decomposition that writes in place is recorded anew below functionalization, which turns its writes into
        # values.
        for node in written:
            self.graph.erase_node(node)
        with self, functional.below_autograd():
            return functional.call(rule, args, kwargs)

    def _is_composite(self, func: OpOverload) -> bool:
        """True for operators that consist of others on every device."""
        known = self._composite.get(func)
        if known is None:
            has = functools.partial(dispatch_has_kernel_for_dispatch_key, func.name())
            known = has("CompositeImplicitAutograd") and not any(map(has, _KERNEL_KEYS)) and func not in _LIFTS
            self._composite[func] = known
        return known

    def _annotate(self, node: fx.Node, value: object) -> None:
        node.meta.update(val=value, phase=self.phase)
        self.histories.note(node)
        # Gradients are on in backward only where a checkpoint runs forward again, in the mode that forward ran in.
        repeats = self.phase == "backward" and torch.is_grad_enabled()
        if repeats:
            node.meta[REPEATS] = True
        if repeats or (self.phase == "backward" and autocast_depth() > self.autocast_depth):
            node.meta[OWN_AUTOCAST] = True
        if self.source is not None:
            node.meta["source"] = self.source.name
            for key in ("stack_trace", "nn_module_stack", "location"):
                if key in self.source.meta:
                    node.meta[key] = self.source.meta[key]
            if self.phase == "forward" and self.source.meta.get(MAY_RAISE):
                node.meta[MAY_RAISE] = True

    def _bind_result(self, node: fx.Node, result: object) -> None:
        if isinstance(result, torch.Tensor):
            self._refuse_odd(f"a result of {node.target}", result)
            self._remember(result, node)
            if any(map(self.sizes.is_news, result.shape)):
                self.sizes.bind_layout(result, node)  # how much the operator found is told by its result alone
        elif isinstance(result, (list, tuple)):
            for index, part in enumerate(result):
                if isinstance(part, (torch.Tensor, list)):  # some operators give a list beside a tensor
                    item = self.graph.create_node("call_function", operator.getitem, (node, index), {}, "getitem")
                    self._annotate(item, part)
                    self._bind_result(item, part)
        elif isinstance(result, SYM_TYPES):
            self.sizes.bind(result, node)

    def _refuse_odd(self, what: str, value: torch.Tensor) -> None:
        with DisableTorchFunction():  # else each question goes through the mode above autograd
            odd = oddity(value)
        if odd:
            raise Unsupported(f"{what} {odd}", "keep such tensors out of the graph, or leave it uncompiled")

    def _remember(self, value: torch.Tensor, node: fx.Node) -> None:
        # The tensor is kept alive with its entry, so an id is never taken by another tensor.
        self._nodes[id(value)] = (value, node)

    # -- arguments ----------------------------------------------------------------------------------------------

    def _encode(self, value: object) -> Any:
        if isinstance(value, torch.Tensor):
            return self.node_of(value)
        if isinstance(value, SYM_TYPES):
            return self.sizes.node_for(value, of_gradient=self.phase == "backward")
        if isinstance(value, (list, tuple)):
            return (
                type(value)(map(self._encode, value)) if type(value) in (list, tuple) else [*map(self._encode, value)]
            )
        if isinstance(value, dict):
            return {key: self._encode(item) for key, item in value.items()}
        return value

    def _of_fakes(self, func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
        """The fake results of an operator, laid out as its kernel does it."""
        faked, faked_options = self._faked(func, args), self._faked(func, kwargs)
        result = taken(func, faked, faked_options)
        if result is not NotImplemented:
            return result
        return corrected(func, args, kwargs, func(*faked, **faked_options), self.fake_mode)

    def _faked(self, func: OpOverload, value: object) -> Any:
        """The arguments with fake tensors in place of real ones from outside."""
        if func in _LIFTS or all(not _is_real(leaf) for leaf in _leaves(value)):
            return value
        if schema_of(func).is_mutable:
            raise Unsupported(
                f"{func} changes a tensor that is not an input of the graph",
                "pass that tensor as an argument, so that its new value can be written back",
            )
        return _map_tensors(value, lambda t: self._constant(t)[1] if _is_real(t) else t)

    def _constant(self, value: torch.Tensor) -> tuple[fx.Node, FakeTensor]:
        known = self._constants.get(id(value))
        if known is None:
            if isinstance(value, FakeTensor):
                raise BadGraph("an operator takes a fake tensor that no operator of this graph has made")
            if value.requires_grad:
                raise Unsupported(
                    "the function closes over a tensor that requires grad, so its gradient would be lost",
                    "pass it as an argument, or compile the module that owns it with aotgrad.module",
                )
            self._refuse_odd("a tensor that the function closes over", value)
            name = f"_constant{len(self._constants)}"
            setattr(self.root, name, value)
            # Ahead of all operators, as it may be read by any of them.
            with self._ahead_of_operators():
                node = self.graph.create_node("get_attr", name, (), {}, name)
            fake = self._fakes.of(value)
            node.meta.update(val=fake, phase="forward")
            known = self._constants[id(value)] = (value, node, fake)
        return known[1], known[2]


def _is_kept_by_checkpoint() -> bool:
    """True if a checkpoint is detaching the value that it recomputed, to keep it: autograd then puts back the history
    that it has, and a derivative of the gradient goes on through it."""
    caller = sys._getframe(2)
    while caller is not None and caller.f_back is not None:
        home = caller.f_globals.get("__name__", "")
        if home == "torch.utils.checkpoint" or not home.startswith(("torch.", "aotgrad.", "contextlib")):
            return caller.f_code.co_name == "pack_hook" and home == "torch.utils.checkpoint"
        caller = caller.f_back
    return False


def autocast_depth() -> int:
    """The number of regions of autocast that this thread is in, those that switch it off included."""
    torch.autocast_increment_nesting()
    return int(torch.autocast_decrement_nesting())


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (list, tuple))


def _are(given: object, tensors: Sequence[torch.Tensor]) -> bool:
    """True if an operator is given these tensors, as a list or the only one of them."""
    each = given if _is_list(given) else (given,)
    return len(each) == len(tensors) and all(map(operator.is_, each, tensors))


def _makes_views(func: OpOverload) -> bool:
    return any(each.alias_info is not None for each in schema_of(func).returns)


def _is_real(value: object) -> bool:
    return isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)


def _leaves(value: object) -> Iterable[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
    else:
        yield value


def _map_tensors(value: object, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_map_tensors(item, change) for item in value)
    if isinstance(value, dict):
        return {key: _map_tensors(item, change) for key, item in value.items()}
    return value
