"""The facts that somebody can see of some objects, as a flat list: values, kinds, layouts, gradients, who is whom.

Two runs of one program are the same to everybody when their lists are.  Data is copied, so that a list stays as it was
when the program goes on.
"""

from __future__ import annotations

import collections
import re
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

Kind = tuple[Any, ...]
SHARES = "shares memory with"


@dataclass(frozen=True, slots=True)
class Sight:
    """One thing that was seen: its place, the facts of it that are compared as they are, and the data of a tensor."""

    where: str
    facts: Kind
    data: torch.Tensor | None = None


@dataclass(slots=True)
class Walk:
    """The objects and memories met on the way, by the places where they were met first."""

    sights: list[Sight] = field(default_factory=list)
    objects: dict[int, str] = field(default_factory=dict)
    memories: dict[int, tuple[str, int]] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)
    tensors: list[torch.Tensor] = field(default_factory=list)

    def look(self, value: Any, where: str) -> None:
        """Notes one value and what is in it, or the place where it was met before."""
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, torch.dtype, torch.device)):
            self.note(where, type(value).__name__, repr(value))
            return
        if id(value) in self.objects:
            self.note(where, "is", self.objects[id(value)])
            return
        self.objects[id(value)] = where
        self.kept.append(value)  # its id must not be given to another
        for kind, looker in LOOKERS:
            if isinstance(value, kind):
                looker(self, value, where)
                return
        self.note(where, type(value).__name__)
        if hasattr(value, "__dict__") and not callable(value):
            self.look_in(attributes(value), where)

    def look_in(self, parts: Iterator[tuple[str, Any]], where: str) -> None:
        for name, part in parts:
            self.look(part, where + name)

    def note(self, where: str, *facts: Any) -> None:
        self.sights.append(Sight(where, facts))


def observe(**world: Any) -> list[Sight]:
    """The facts that can be seen of these objects, in order."""
    walk = Walk()
    for name, value in world.items():
        walk.look(value, name)
    return walk.sights


def tensors_in(**world: Any) -> list[torch.Tensor]:
    """The tensors themselves, in the order in which they are seen."""
    walk = Walk()
    for name, value in world.items():
        walk.look(value, name)
    return walk.tensors


def attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """An object's attributes, in an order that does not depend on when they were set."""
    return ((f".{name}", vars(value)[name]) for name in sorted(vars(value)))


def _tensor(walk: Walk, value: torch.Tensor, where: str) -> None:
    walk.tensors.append(value)
    kind = type(value).__name__
    # Without strides and a storage of its own: its text has to do.
    if value.layout is not torch.strided or value.is_quantized:
        walk.note(where, kind, str(value.layout), str(value.dtype), tuple(value.shape), str(value.detach()))
        return
    facts = (kind, str(value.dtype), tuple(value.shape), seen_strides(value), value.requires_grad, history(value))
    memory = value.untyped_storage()
    shared: Kind = ()
    # Whether tensors share memory can be seen by writing; of none without elements.
    if value.numel() and memory._cdata in walk.memories:
        first, offset = walk.memories[memory._cdata]
        shared = (SHARES, first, value.storage_offset() - offset)
    elif value.numel():
        walk.memories[memory._cdata] = (where, value.storage_offset())
        walk.kept.append(memory)
    walk.sights.append(Sight(where, (*facts, *shared), value.detach().clone()))
    # Reading ``.grad`` of any other tensor warns.
    if history(value) == "leaf" or (value.requires_grad and value.retains_grad):
        walk.look(value.grad, f"{where}.grad")


def history(value: torch.Tensor) -> str:
    """ "leaf" or "made", or torch's refusal to say which."""
    try:
        return "leaf" if value.is_leaf else "made"
    except RuntimeError as error:  # a view of what was changed in another mode of gradients
        return str(error)


def seen_strides(value: torch.Tensor) -> tuple[int, ...]:
    """Strides along which something lies: those of dimensions of one or no elements mean nothing."""
    if not value.numel():
        return ()
    return tuple(stride if size > 1 else 0 for size, stride in zip(value.shape, value.stride(), strict=True))


def _mapping(walk: Walk, value: Mapping[Any, Any], where: str) -> None:
    walk.note(where, type(value).__name__, len(value))
    for index, (key, item) in enumerate(value.items()):
        simple = isinstance(key, (str, int, float, bool))
        if not simple:
            walk.look(key, f"{where}.key({index})")
        else:
            walk.note(f"{where}.key({index})", repr(key))
        walk.look(item, f"{where}[{key!r}]" if simple else f"{where}[key {index}]")


def _sequence(walk: Walk, value: Any, where: str) -> None:
    walk.note(where, type(value).__name__, len(value))
    walk.look_in(((f"[{index}]", item) for index, item in enumerate(value)), where)


def _module(walk: Walk, value: torch.nn.Module, where: str) -> None:
    walk.note(where, type(value).__name__, value.training, tuple(sorted(value._non_persistent_buffers_set)))
    for table in ("_parameters", "_buffers", "_modules"):  # in their order, which a state dict has
        walk.look_in(((f".{name}", part) for name, part in getattr(value, table).items()), where)
    own = (name for name in vars(value) if not name.startswith("_") and name != "training")
    walk.look_in(((f".{name}", vars(value)[name]) for name in sorted(own)), where)


def _optimizer(walk: Walk, value: torch.optim.Optimizer, where: str) -> None:
    walk.note(where, type(value).__name__)
    walk.look(value.param_groups, f"{where}.param_groups")
    walk.look(value.state, f"{where}.state")


# Names of autograd's nodes, which compiled ones have of their own, and which of their gradients it is; and which of the
# tensors over one memory was saved, as that is for each compiler to choose.
_WHOSE = re.compile(
    r", which is output \d+ of [\w:]+,"
    r"|(?<=modified by an inplace operation: )\[[\w.]+ \[[\d, ]*\]\]"
    r"|(?<=^Function )[\w:]+(?= returned an invalid gradient)"
    r"|(?<= returned an invalid gradient at index )\d+"
)


def _exception(walk: Walk, value: BaseException, where: str) -> None:
    text = str(value).partition("\nException raised from ")[0]  # addresses follow
    walk.note(where, type(value).__name__, _WHOSE.sub("", text))


def _function(walk: Walk, value: Any, where: str) -> None:
    walk.note(where, "function", getattr(value, "__name__", type(value).__name__))


LOOKERS: tuple[tuple[Any, Callable[[Walk, Any, str], None]], ...] = (
    (torch.Tensor, _tensor),
    (torch.nn.Module, _module),
    (torch.optim.Optimizer, _optimizer),
    (Mapping, _mapping),
    ((list, tuple, collections.deque), _sequence),
    (BaseException, _exception),
    ((type, types.FunctionType, types.BuiltinFunctionType, types.MethodType), _function),
    (types.ModuleType, lambda walk, value, where: walk.note(where, "module", value.__name__)),  # it is no program's
)
