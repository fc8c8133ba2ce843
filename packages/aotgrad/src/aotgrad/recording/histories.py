"""Histories: the places where autograd's graph differs from the operators of a traced graph; gradients of gradients
follow autograd's.

The operators of a joint graph that are run again under autograd would be followed through all that they compute.  Some
of it the program computed without gradients, took by ``.data``, or wrote where autograd did not look: such a value has
no history, or another one.  While the program is traced this is noted in the ``meta`` of nodes, or by a `detach`.
A function with a backward of its own computes without gradients, too, and its results have the history that it gives
them: a node that nobody reads calls it, for its history alone.
Must not know: what becomes of the notes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

import torch
from torch import fx
from torch.autograd.function import BackwardCFunction

from aotgrad.random_operators import draws
from aotgrad.recording.own_functions import OwnBackward, callers, is_in_a_function, outermost_function, what_is_called
from aotgrad.recording.whole_operators import sources_of
from aotgrad.tensors import functional
from aotgrad.torch_versions import aten, base_of, get_sequence_nr, sequence_nr_of

DETACHED = "detached"
"""The key in a node's ``meta`` for a value computed where no gradients were recorded."""

HISTORY = "history"
"""The key in a node's ``meta`` for the node whose history its value has: it was written where autograd did not look."""

_FACTORIES = frozenset(
    packet
    for packet in (
        aten.zeros_like, aten.ones_like, aten.full_like, aten.empty_like, aten.new_zeros, aten.new_ones, aten.new_full,
        aten.new_empty, aten.new_empty_strided,
    )
)  # fmt: skip
"""Operators that read only the metadata of a tensor."""


def is_detached(node: fx.Node) -> bool:
    """True if autograd goes on from this value to nothing that it was computed from."""
    return node.target is aten.detach.default or DETACHED in node.meta


def is_number(value: object) -> bool:
    """True for tensors that derivatives exist of."""
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


class Histories:
    """The record of what autograd follows among the values of one trace; ``leaves``: the inputs that require grad."""

    def __init__(self, node_of: Callable[[torch.Tensor], fx.Node]) -> None:
        self._node_of = node_of
        self.leaves: set[fx.Node] = set()
        self._recorded = torch.is_grad_enabled()  # as the program has it, which functions of autograd do not change
        self._scopes: dict[int, tuple[Any, bool]] = {}
        self._seen: dict[int, tuple[torch.Tensor, Any, fx.Node]] = {}
        self._follows: dict[fx.Node, bool] = {}
        self._taken: dict[int, tuple[torch.Tensor, fx.Node, torch.Tensor]] = {}
        self._calls: dict[int, fx.Node] = {}  # by the number that autograd gives the node of the function
        self._frame: FrameType | None = None
        self._call: fx.Node | None = None
        self._inside = False
        self.goes_back = False
        """True once the program is over and autograd runs its backward."""

    def switch(self, recorded: bool) -> None:
        """Notes that the program switches the recording of gradients on or off."""
        if is_in_a_function():
            return
        scope, ends = _scope()
        before = self._scopes.get(id(scope), (scope, self._recorded))
        if ends:  # while autograd goes back gradients are off, and yet all that its formulas compute is followed
            self._scopes.pop(id(scope), None)
        elif scope is not None:
            self._scopes[id(scope)] = before
        self._recorded = before[1] if ends else recorded

    def enter(self, graph: fx.Graph, encode: Callable[[Any], Any]) -> None:
        """Notes that forward is about to record an operator, perhaps within a function with a backward of its own."""
        self._inside = False
        if torch.is_grad_enabled() or not (self._recorded and self.leaves and get_sequence_nr):
            return
        frame = outermost_function()
        if frame is None:
            return
        if frame is not self._frame:
            self._frame, called = frame, what_is_called(frame)
            self._call = None if called is None else self._called(graph, encode, *called)
        self._inside = self._call is not None

    def _called(
        self, graph: fx.Graph, encode: Callable[[Any], Any], function: Any, args: Sequence[Any]
    ) -> fx.Node | None:
        wants = any(isinstance(each, torch.Tensor) and each.requires_grad for each in args)
        own = function.__module__.startswith("aotgrad.")
        if not wants or own or not all(map(_is_plain, args)) or _casts():
            return None
        node = graph.create_node("call_function", OwnBackward(function), tuple(map(encode, self._current(args))), {})
        node.meta.update(val=None, phase="forward")
        self._calls[get_sequence_nr() - 1] = node
        return node

    def _current(self, args: Sequence[object]) -> Iterator[Any]:
        for each in args:
            yield functional.current(each) if isinstance(each, torch.Tensor) else each

    def note(self, node: fx.Node) -> None:
        """Marks a node that was just recorded."""
        if torch.is_grad_enabled():
            return
        if not self._recorded or self._inside or torch.is_inference_mode_enabled():
            node.meta[DETACHED] = True
        if self._inside and self._call is not None and draws(node.target):
            call: Any = self._call.target
            call.drew = True

    def arguments(
        self, args: Sequence[object], kwargs: Mapping[str, object], *, written: bool
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        """The operands of an operator, detached where autograd does not follow them though they are computed from what
        it follows.  ``written``: it writes to the first."""
        # ``out`` is written, not read.
        rest = {name: value for name, value in kwargs.items() if name != "out"}
        given = [each for each in _tensors([*args, *rest.values()]) if functional.is_functional(each)]
        for value in given:
            self._see(value)
        if not torch.is_grad_enabled() or not any(value.requires_grad for value in given):
            return args, dict(kwargs)
        apart = {id(value) for value in given if not value.requires_grad and self._comes_from_leaves(value)}
        if written and args:
            apart.discard(id(args[0]))
        if not apart:
            return args, dict(kwargs)
        found = self._without_history(list(args), apart)
        return found, {**kwargs, **{name: self._without_history(value, apart) for name, value in rest.items()}}

    def settle(self) -> None:
        """Completes the record at the end of the program, before backward."""
        for value, _, _ in list(self._seen.values()):
            self._see(value)
        self._recorded, self._inside, self._frame, self.goes_back = True, False, None, True
        self._scopes.clear()

    def close(self) -> None:
        """Ends the trace.  A frame that stays would keep all that called it, whose variables include exceptions and
        what ends with those, until cycles are collected."""
        self._frame = self._call = None
        self._scopes.clear()

    def _see(self, value: torch.Tensor) -> None:
        """Notes a tensor with another value and the same history: it was written where autograd did not look."""
        if not value.requires_grad:
            return
        try:
            node, end, root = self._node_of(functional.current(value)), value.grad_fn, _root(value)
        except RuntimeError:  # a view that autograd lets nobody use any more
            return
        _, known, before = self._seen.get(id(value), (value, None, node))
        if known is root and before is not node:
            node.meta[HISTORY] = before
            self._follows.clear()
        elif known is not root and isinstance(end, BackwardCFunction) and DETACHED in node.meta:
            call = self._calls.get(sequence_nr_of(end)())
            if call is not None:
                node.meta[HISTORY] = _result(call, value.output_nr, node)
        self._seen[id(value)] = (value, root, node)

    def _comes_from_leaves(self, value: torch.Tensor) -> bool:
        if not is_number(value):
            return False
        waiting = [self._node_of(functional.current(value))]
        last = waiting[0]
        while waiting:
            node = waiting[-1]
            before = comes_from(node)
            unknown = [] if node in self._follows else [source for source in before if source not in self._follows]
            if unknown:
                waiting.extend(unknown)
                continue
            waiting.pop()
            self._follows.setdefault(node, node in self.leaves or any(self._follows[each] for each in before))
        return self._follows[last]

    def _without_history(self, value: object, apart: set[int]) -> Any:
        if isinstance(value, torch.Tensor):
            return self._detached(value) if id(value) in apart else value
        if isinstance(value, list):  # FX has one of its own
            return [self._without_history(each, apart) for each in value]
        return tuple(self._without_history(each, apart) for each in value) if type(value) is tuple else value

    def _detached(self, value: torch.Tensor) -> torch.Tensor:
        node = self._node_of(functional.current(value))
        known = self._taken.get(id(value))
        if known is None or known[1] is not node:
            known = self._taken[id(value)] = (value, node, value.detach())
        return known[2]


def _result(call: fx.Node, number: int, value: fx.Node) -> fx.Node:
    """The node of a call's result of this number."""
    known = (user for user in call.users if user.target is operator.getitem and user.args[1] == number)
    found = next(known, None)
    if found is None:
        with call.graph.inserting_after(call):
            found = call.graph.call_function(operator.getitem, (call, number))
        found.meta.update(val=value.meta["val"], phase="forward")
    return found


def _root(value: torch.Tensor) -> object:
    """The autograd node that tells one history of a tensor from another.  Of a view it is its base's: that of the view
    is made anew after every write, also where gradients are not recorded."""
    base = base_of(value)
    return value.grad_fn if base is None or not base.requires_grad else base.grad_fn


def _is_plain(value: object) -> bool:
    """True for a tensor that the graph knows, and for values that lead to none."""
    if isinstance(value, torch.Tensor):
        return functional.is_functional(value)
    plain = (bool, int, float, complex, str, torch.dtype, torch.device, torch.SymInt, torch.SymFloat, type(None))
    return isinstance(value, plain) or (isinstance(value, (tuple, list)) and all(map(_is_number_of, value)))


def _is_number_of(value: object) -> bool:
    return isinstance(value, (bool, int, float, torch.SymInt))


def _casts() -> bool:
    return any(torch.is_autocast_enabled(device) for device in ("cpu", "cuda"))


def comes_from(node: fx.Node) -> Sequence[fx.Node]:
    """The values that a derivative goes on to from this one."""
    if HISTORY in node.meta:
        return [node.meta[HISTORY]]
    made = getattr(node.target, "overloadpacket", None) in _FACTORIES
    value = node.meta.get("val")
    counted = isinstance(value, torch.Tensor) and not is_number(value)
    drawn = draws(node.target) and node.target is not aten.native_dropout.default
    return [] if is_detached(node) or made or counted or drawn else sources_of(node)


def _tensors(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)


def _scope() -> tuple[Any, bool]:
    """The context, as `torch.no_grad` gives one, that is entered or left here, and which of the two."""
    scope: Any = None
    ends = False
    for caller in callers():
        if caller.f_code.co_filename == _CONTEXTS:
            scope, ends = caller.f_locals.get("self"), caller.f_code.co_name == "__exit__"
        elif caller.f_globals.get("__name__", "").startswith("aotgrad.") and scope is None:
            continue
        else:
            break
    return scope, ends


_CONTEXTS = torch.no_grad.__enter__.__code__.co_filename
