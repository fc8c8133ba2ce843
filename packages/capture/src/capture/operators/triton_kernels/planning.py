"""The plan of a kernel's start: its operator and its operands, for the evaluator or for Python on fake tensors.

A tensor is handed over by the one that covers its memory, so that aliases and reads beyond a view stay what they are.
A grid that is a function is called here, once for each configuration that the kernel can be started with.
Must not know: how the caller stands for objects.

The operator takes four lists: tensors, whole numbers, floats, and the extents of all grids; a *slot* for each
parameter of the kernel says which of them it gets.  What is constant is part of the operator (``Launch``), of which
there is one for each way of calling.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Generic, Protocol, TypeVar

import torch

from capture.operators.triton_kernels.launches import (
    Branch,
    Constant,
    Held,
    Launch,
    Operand,
    Read,
    Real,
    Slot,
    Whole,
    Window,
    operator_of,
)
from capture.operators.triton_kernels.writes import Unfollowed, function_of, parameters, reach, text_of
from capture.torch_versions import OpOverload, cdata_of

Item = TypeVar("Item")
_LAYERS = frozenset(
    {
        ("triton.runtime.jit", "JITFunction"), ("triton.runtime.interpreter", "InterpretedFunction"),
        ("triton.runtime.autotuner", "Autotuner"), ("triton.runtime.autotuner", "Heuristics"),
    }
)  # fmt: skip
_DIMENSIONS = 3


class Refused(RuntimeError):
    """The call cannot be an operator; the message says why."""


@dataclass(frozen=True, slots=True)
class Measured(Generic[Item]):
    """A data-dependent float, in a tensor without dimensions."""

    tensor: Item


class Caller(Protocol[Item]):
    """The side that makes the call, as the plan sees it.  An item is whatever stands for an object there."""

    def seen(self, item: Item) -> Any:
        """The object for an item: a tensor, a number, a symbol for one, a ``Measured`` one or a constant.

        Raises ``Refused`` for all else.
        """

    def item(self, constant: Any) -> Item: ...

    def holder(self, item: Item, *, written: bool) -> Item | None:
        """A tensor that covers the memory of this one, perhaps itself."""

    def layout(self, item: Item, holder: Item) -> list[Item]:
        """Sizes, strides, and the number of elements that it begins behind the holder."""

    def call(self, function: Any, meta: Mapping[str, Item]) -> Item: ...

    def is_function(self, item: Item) -> bool: ...

    def parts(self, item: Item) -> list[Item]:
        """The items of a tuple or list; raises ``Refused`` for anything else."""


def plan(
    caller: Caller[Item], kernel: object, grid: Item, args: Sequence[Item], kwargs: Mapping[str, Item]
) -> tuple[OpOverload, list[Item], list[Item], list[Item], list[Item]]:
    """The operator, and its operands: tensors, numbers, reals, grid."""
    layers = list(_layers(kernel))
    function = function_of(kernel)
    assert function is not None
    names = parameters(function)
    if len(args) > len(names) or not kwargs.keys().isdisjoint((*names[: len(args)], "grid", "warmup")):
        raise Refused("it is called with arguments that it does not take")
    named = dict(zip(names, args, strict=False)) | dict(kwargs)
    written, types = _reached(layers, function)
    plan = _Plan(caller, written)
    # All tensors first: which operand one becomes hangs on the others over its memory.
    plan.place_tensors(named)
    if any(isinstance(caller.seen(named[name]), torch.Tensor) for name in types & named.keys()):
        raise Refused("nobody can say what it writes to: it makes pointers of numbers")
    slots = {name: plan.slot(name, item) for name, item in named.items()}
    branches = list(_branches(caller, layers, function, grid, named))
    launch = Launch(
        Held(kernel),
        tuple(slots[name] for name in names[: len(args)]),
        tuple((name, slots[name]) for name in kwargs),
        tuple(plan.writes),
        tuple(branch for branch, _ in branches),
    )
    extents = [extent for _, found in branches for extent in found]
    return operator_of(launch), plan.tensors, plan.numbers, plan.reals, extents


def _layers(kernel: Any) -> Iterator[object]:
    """The objects from the one that the program calls down to the kernel itself; each holds the next as ``fn``."""
    while not isinstance(kernel, FunctionType):
        kind = type(kernel)
        if (kind.__module__, kind.__qualname__) not in _LAYERS:
            raise Refused(f"it is a {kind.__module__}.{kind.__qualname__}, not one of Triton's own")
        if getattr(kernel, "pre_run_hooks", None):
            raise Refused("it has hooks that run before it")
        yield kernel
        kernel = kernel.fn


def _reached(layers: Sequence[Any], function: FunctionType) -> tuple[frozenset[str], frozenset[str]]:
    """The parameters that may be written to, whoever does it, and those that say what something is cast to."""
    try:
        found = reach(function, text_of(layers[-1]))
    except Unfollowed as reason:
        raise Refused(f"nobody can say what it writes to: {reason}") from None
    written = found.written
    for layer in filter(_tunes, layers):
        # A hook is given all arguments and may write to any.
        hooked = any(getattr(layer, f"user_defined_{name}_hook", True) for name in ("pre", "post"))
        if hooked or any(config.pre_hook for config in layer.configs):
            return frozenset(parameters(function)), found.types
        # Autotuning itself writes to these.
        written |= {*layer.reset_to_zero, *layer.restore_value}
    return written, found.types


def _tunes(layer: object) -> bool:
    """True for an autotuner; the other layers choose nothing."""
    return type(layer).__qualname__ == "Autotuner"


# -- the grid ----------------------------------------------------------------------------------------------------


def _branches(
    caller: Caller[Item], layers: Sequence[object], function: FunctionType, grid: Item, named: Mapping[str, Item]
) -> Iterator[tuple[Branch, list[Item]]]:
    """The grid for each choice of meta-parameters that it can tell apart, with that choice."""
    if not caller.is_function(grid):
        found = _extents(caller, grid)
        yield Branch((), len(found)), found
        return
    defaults = {
        name: caller.item(parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not parameter.empty
    }
    known: set[tuple[tuple[str, Any], ...]] = set()
    names = parameters(function)
    for chosen, meta in _settings(caller, layers, dict(named), ()):
        values = tuple((name, Constant.of(value)) for name, value in chosen if name in names)
        if values not in known:  # those that differ in what a grid does not see have the same
            known.add(values)
            complete = defaults | meta
            found = _extents(caller, caller.call(grid, {name: complete[name] for name in names if name in complete}))
            yield Branch(values, len(found)), found


def _settings(
    caller: Caller[Item], layers: Sequence[Any], meta: dict[str, Item], chosen: tuple[tuple[str, object], ...]
) -> Iterator[tuple[tuple[tuple[str, object], ...], dict[str, Item]]]:
    """Every choice of meta-parameters, with the values that tell it from the others."""
    layer, *rest = layers
    if _tunes(layer):
        for config in layer.configs:
            # A configuration's meta-parameters, warps and stages.
            given = config.all_kwargs()
            items = {name: caller.item(value) for name, value in given.items()}
            yield from _settings(caller, rest, meta | items, (*chosen, *given.items()))
    elif rest:
        # Heuristics compute one meta-parameter each from all that is known by then.
        for name, function in layer.values.items():
            meta = meta | {name: caller.call(caller.item(function), meta)}
            value = caller.seen(meta[name])
            # A symbol or a number of the data cannot tell two choices apart when the operator is made.
            if not isinstance(value, (torch.SymInt, torch.SymBool, Measured)):
                chosen = (*chosen, (name, value))
        yield from _settings(caller, rest, meta, chosen)
    else:
        yield chosen, meta


def _extents(caller: Caller[Item], grid: Item) -> list[Item]:
    """The one to three extents of a grid."""
    found = caller.parts(grid)
    if not 0 < len(found) <= _DIMENSIONS or not all(_is_whole(caller.seen(extent)) for extent in found):
        raise Refused("its grid is not one to three whole numbers")
    return found


def _is_whole(value: object) -> bool:
    return isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool)


# -- the arguments -----------------------------------------------------------------------------------------------


@dataclass
class _Plan(Generic[Item]):
    """The operands of one call as they are collected, and the slot of each tensor."""

    caller: Caller[Item]
    names_written: frozenset[str]
    tensors: list[Item] = field(default_factory=list)
    writes: list[bool] = field(default_factory=list)
    numbers: list[Item] = field(default_factory=list)
    reals: list[Item] = field(default_factory=list)
    _slots: dict[int, Slot] = field(default_factory=dict)
    _index: dict[int, int] = field(default_factory=dict)

    def place_tensors(self, named: Mapping[str, Item]) -> None:
        """Gives every tensor its operand, all aliases of one memory together."""
        groups: dict[int, list[tuple[str, Item]]] = {}
        for name, item in named.items():
            tensor = self.caller.seen(item)
            if isinstance(tensor, torch.Tensor):
                # By memory: aliases go together.
                groups.setdefault(_memory_of(tensor), []).append((name, item))
        if not groups:
            raise Refused("it is given no tensor")
        for group in groups.values():
            self._place(group, any(name in self.names_written for name, _ in group))

    def _place(self, group: Sequence[tuple[str, Item]], written: bool) -> None:
        """Places the tensors over one memory.  If it is written to, all of them are made of one operand."""
        tensors = [self.caller.seen(item) for _, item in group]
        # Only read, or all of them one tensor: each can be an operand of its own.
        apart = not written or len(set(map(id, tensors))) == 1
        # Written to: one operand that covers the memory, of which the operator makes every view, so that writes show in
        # all.
        shared = [self._holder([item for _, item in group], written=True)] if written else []
        for (_, item), tensor in zip(group, tensors, strict=True):
            if apart and covers(tensor):
                held = item
            else:
                held = shared[0] if shared else self._holder([item], written=False)
            index = self._operand(held, written=written)
            same = self.caller.seen(held) is tensor
            self._slots[id(tensor)] = Operand(index) if same else self._window(item, held, index)

    def _holder(self, items: Sequence[Item], *, written: bool) -> Item:
        """The first tensor that covers the memory of these."""
        found = (self.caller.holder(item, written=written) for item in items)
        holder = next((each for each in found if each is not None), None)
        if holder is None:
            raise Refused("it is given a view of which the tensor behind is not known")
        return holder

    def _operand(self, item: Item, *, written: bool) -> int:
        """The number of a tensor among the operands, which has each once."""
        tensor = self.caller.seen(item)
        if id(tensor) not in self._index:
            self._index[id(tensor)] = len(self.tensors)
            self.tensors.append(item)
            self.writes.append(written)
        return self._index[id(tensor)]

    def _window(self, item: Item, holder: Item, index: int) -> Window:
        """The slot for a view of an operand."""
        tensor = self.caller.seen(item)
        if tensor.dtype != self.caller.seen(holder).dtype:
            raise Refused("it is given a view of another type of numbers")
        # Sizes, strides and offset are numbers of the operator, as they may vary.
        at = len(self.numbers)
        self.numbers += self.caller.layout(item, holder)
        return Window(index, tensor.dim(), at)

    def slot(self, name: str, item: Item) -> Slot:
        """The slot of an argument, with its number put among the operator's where it is one."""
        value = self.caller.seen(item)
        if isinstance(value, torch.Tensor):
            return self._slots[id(value)]
        if _is_whole(value):
            self.numbers.append(item)
            return Whole(len(self.numbers) - 1)
        if isinstance(value, float):
            self.reals.append(item)
            return Real(len(self.reals) - 1)
        if isinstance(value, Measured):
            return Read(self._operand(value.tensor, written=False))
        if value is None or isinstance(value, (bool, str, torch.dtype)) or _is_tritons(value):
            return Constant.of(value)
        raise Refused(f"its argument `{name}` is a {type(value).__qualname__}")


def _is_tritons(value: object) -> bool:
    """True for a type of numbers, another kernel, or a constant wrapped for it."""
    kind = type(value)
    return str(kind.__module__).startswith("triton.") and kind.__name__ != "pointer_type" and not hasattr(value, "base")


def _memory_of(tensor: torch.Tensor) -> int:
    """The address of the storage, which all aliases share."""
    if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
        raise Refused("it is given a tensor that is not laid out plainly")
    return int(cdata_of(tensor.untyped_storage()))


def fills_its_memory(tensor: torch.Tensor) -> bool:
    """True if a tensor without holes or overlap is as long as its storage; `covers` without looking at strides."""
    return tensor.untyped_storage().nbytes() == tensor.nbytes


def covers(tensor: torch.Tensor) -> bool:
    """True if each element of its memory is one element of the tensor."""
    if tensor.storage_offset() != 0 or tensor.numel() * tensor.itemsize != tensor.untyped_storage().nbytes():
        return False
    if tensor.is_contiguous():
        return True
    expected = 1
    # From the innermost dimension out each stride is the product of the sizes within: no holes, no overlap.
    for size, stride in sorted(zip(tensor.size(), tensor.stride(), strict=True), key=lambda pair: (pair[1], pair[0])):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
