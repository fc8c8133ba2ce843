"""A frame's effects against its guards: where it writes what it relied on, its code fits no call like this one.

    read, and relied on         written                    the next call finds
    ───────────────────────     ──────────────────────     ─────────────────────────────────
    p.grad is None              p.grad = a tensor          a tensor: captured anew
    self.n equals 3             self.n = 4                 4: captured anew
    p.grad is None              p.grad = a tensor, None    None: the same code

Only what is certain counts.  Where a value cannot be known, or the next call may well bring another object on the path,
the guard is one that holds.  Must not know who asks, or what becomes of such code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from capture._engine import are_interchangeable
from capture.guards.guard import Guard
from capture.guards.kinds import RELATIONS, GuardKind
from capture.guards.sources import (
    ArgSource,
    AttrSource,
    CellSource,
    ClosureSource,
    DictSource,
    GetitemSource,
    GlobalSource,
    HiddenEntrySource,
    ItemSource,
    KeySource,
    Source,
)
from capture.values.base import LazyValue, Value, settled
from capture.values.classes import ClassValue
from capture.values.constant import UNBOUND, ConstantValue
from capture.values.function import CellValue, NamespaceValue
from capture.values.mapping import DictValue
from capture.values.scalar import ScalarValue
from capture.values.sequence import ListValue, OutsideList, SequenceValue, SetValue
from capture.values.tensor import TensorValue
from capture.values.user_object import UserObject

_SHOWN = 3
_NUMBERS = (int, float)


@dataclass(frozen=True, slots=True)
class OwnChange:
    """The change of something that a guard relied on, in words; of a number that becomes another one, too."""

    source: Source
    text: str
    was: Any = None
    """The number, where one becomes another of its kind."""
    becomes: Any = None
    """The number that it becomes; None where only the graph will tell."""


def describe(changes: Sequence[OwnChange]) -> str:
    texts = list(dict.fromkeys(change.text for change in changes))
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return f"{', '.join(texts[:_SHOWN])}{more}"


def own_changes(changed: Sequence[Value], guards: Iterable[Guard]) -> list[OwnChange]:
    """The guards that do not hold any more once the frame has run."""
    if not changed:
        return []
    left = _Left(changed)
    return [change for guard in guards if (change := left.broken(guard)) is not None]


class _Left:
    """The state that a frame leaves behind where it wrote."""

    def __init__(self, changed: Sequence[Value]) -> None:
        self._places: dict[Source, Value | None] = {}
        self._contents: dict[Source, Value] = {}
        for value in changed:
            self._places.update(_places_of(value))
            if (source := _source_of(value)) is not None:
                self._contents[DictSource(source) if isinstance(value, UserObject) else source] = value

    def broken(self, guard: Guard) -> OwnChange | None:
        """The change that makes the guard fail in the next call; None where it holds, or nothing is known."""
        source = guard.source
        if source is None or not (source in self._places or source in self._contents):
            return None
        if guard.kind in RELATIONS or _comes_anew(source):
            return None
        if source in self._places:
            found = self._place(source)
            if not _is_broken(guard, found) or self._is_moved(source):
                return None
            return OwnChange(source, _described(guard, found), *_number(guard, found))
        contents = self._contents[source]
        if not _holds_other(guard, contents) or self._is_moved(source):
            return None
        return OwnChange(source, f"{_path(source)} gets {_OTHER[guard.kind]}")

    def _place(self, source: Source) -> Value | None:
        """The value that is in a place then; None where nothing is."""
        found = self._places[source]
        known = None if found is None else settled(found)
        return None if known is UNBOUND else known

    def _is_moved(self, source: Source) -> bool:
        """True if the path to it leads to another object then, of which nothing is known."""
        steps = (step for step in source.chain() if step is not source and step in self._places)
        return any(not _is_as_before(step, self._place(step)) for step in steps)


def _source_of(value: Value) -> Source | None:
    return (value.whole or value).source


def _is_as_before(source: Source, found: Value | None) -> bool:
    return found is not None and found.source == source


def _comes_anew(source: Source) -> bool:
    """True if it is in a container that was passed: ``**kwargs`` and batches are others in each call."""
    steps = list(source.chain())
    return isinstance(steps[0], ArgSource) and not any(isinstance(step, (AttrSource, DictSource)) for step in steps)


# -- the places that values are kept in --------------------------------------------------------------------------------


def _places_of(value: Value) -> Iterator[tuple[Source, Value | None]]:
    """The paths to what a changed object holds, and what is there then."""
    source = _source_of(value)
    if isinstance(value, NamespaceValue):
        for name, item in value.written.items():
            yield (GlobalSource(name) if source is None else KeySource(source, name)), item
    elif source is None:
        return
    elif isinstance(value, CellValue):
        yield AttrSource(source, "cell_contents"), value.content
        # A cell of the function itself is read by two paths: as a cell and as a variable.
        if isinstance(source, CellSource):
            yield ClosureSource(source.index, source.name), value.content
    elif isinstance(value, (ClassValue, TensorValue)):
        yield from _attributes(source, value.written.items())
    elif isinstance(value, DictValue):
        yield from _entries(value)
    elif isinstance(value, ListValue) and not _is_unread(value):
        for index, item in enumerate(value.items):
            # Both accessors are in use for lists: by position in a list, by ``[]`` in a deque.
            yield ItemSource(source, index), item
            yield GetitemSource(source, index), item
    elif isinstance(value, UserObject):
        yield from _attributes(source, value.overlay.items())


def _attributes(source: Source, written: Iterable[tuple[str, Value | None]]) -> Iterator[tuple[Source, Value | None]]:
    """The paths that each attribute may be read from, with what was written to it."""
    held = DictSource(source)
    for name, item in written:
        yield AttrSource(source, name), item
        yield KeySource(held, name), item
        yield HiddenEntrySource(held, name), item


def _entries(value: DictValue) -> Iterator[tuple[Source, Value | None]]:
    """The entries of a dict that were there before."""
    for key, (_, before) in value.found.items():
        if before.source is not None:
            yield before.source, value.entries[key][1] if key in value.entries else None


def _is_unread(value: ListValue) -> bool:
    return isinstance(value, OutsideList) and value.is_unread()


# -- checks of what is there then --------------------------------------------------------------------------------------


def _is_broken(guard: Guard, found: Value | None) -> bool:
    """True if the guard does not hold for what is found."""
    if guard.kind is GuardKind.ABSENT:
        return found is not None
    if found is None:
        return True
    if _is_as_before(guard.source, found):  # type: ignore[arg-type]
        return False
    if guard.kind in _OTHER:
        return _holds_other(guard, found)
    check = _CHECKS.get(guard.kind)
    return check is not None and check(guard.payload[0] if guard.payload else None, found)


def _type_of(found: Value) -> type | None:
    try:
        return found.python_type()
    except NotImplementedError:  # of what stands for a place
        return None


def _is_of_another_type(expected: type, found: Value) -> bool:
    return _type_of(found) not in (None, expected)


def _is_unequal(expected: object, found: Value) -> bool:
    if _is_of_another_type(type(expected), found):
        return True
    if isinstance(found, ScalarValue) and type(expected) is float:
        return True  # as good as never the same
    # Sets may hold what is compared by code, which is not run here.
    known = isinstance(found, ConstantValue) and type(expected) is not frozenset
    return known and not are_interchangeable(found.value, expected)  # type: ignore[attr-defined]


def _is_another_object(expected: object, found: Value) -> bool:
    """True for an object that is certainly none from before."""
    if isinstance(found, ConstantValue):
        return type(found.value) is not type(expected)
    made_here = (TensorValue, ListValue, DictValue, SetValue, UserObject)
    return isinstance(found, made_here) and found.source is None


def _is_another_tensor(expected: tuple[Any, ...], found: Value) -> bool:
    """True for a tensor that differs in what a graph relies on; strides are torch's to tell."""
    if not isinstance(found, TensorValue):
        cls = _type_of(found)
        return cls is not None and not issubclass(cls, torch.Tensor)
    fake, sizes = found.fake, expected[4]
    if (found.cls, fake.dtype, fake.device, fake.requires_grad) != expected[:4] or len(sizes) != fake.dim():
        return True
    known = ((wanted, size) for wanted, size in zip(sizes, fake.shape, strict=True) if type(size) is int)
    return any(wanted not in (None, size) for wanted, size in known)


def _is_no_longer(truth: bool) -> Callable[[Any, Value], bool]:
    def check(_: object, found: Value) -> bool:
        return isinstance(found, ConstantValue) and type(found.value) is bool and found.value is not truth

    return check


_CHECKS: dict[GuardKind, Callable[[Any, Value], bool]] = {
    GuardKind.TYPE: _is_of_another_type,
    GuardKind.EQUALS: _is_unequal,
    GuardKind.IS: _is_another_object,
    GuardKind.TENSOR: _is_another_tensor,
    GuardKind.TRUE: _is_no_longer(True),
    GuardKind.FALSE: _is_no_longer(False),
}
_OTHER = {GuardKind.KEYS: "other keys", GuardKind.LENGTH: "another length", GuardKind.ITEMS: "other items"}
"""Guards on what containers hold, with the words for a change of it."""


def _holds_other(guard: Guard, found: Value) -> bool:
    """True if a container holds something else than the guard wants."""
    expected: Any = guard.payload[0] if guard.payload else None
    if guard.kind is GuardKind.LENGTH:
        length = _length(found)
        return length is not None and length != expected
    if guard.kind is GuardKind.ITEMS:
        return isinstance(found, SetValue) and set(found.entries) != set(expected)
    if guard.kind is not GuardKind.KEYS:
        return False
    if isinstance(found, UserObject):
        return found.source is not None and tuple(found.current_names()) != expected
    if not isinstance(found, DictValue):
        return False
    return len(found.entries) != len(expected) or (bool(found.found) and [*found.found] != [*found.entries])


def _length(found: Value) -> int | None:
    """The number of items; None for a list of which only what was appended is known."""
    if isinstance(found, ListValue) and _is_unread(found):
        return None
    if isinstance(found, SequenceValue):
        return len(found.items)
    return len(found.entries) if isinstance(found, (DictValue, SetValue)) else None


# -- words -------------------------------------------------------------------------------------------------------------


def _path(source: Source) -> str:
    """The path as the program writes it, also where code of a class answers for its attributes."""
    if isinstance(source, HiddenEntrySource) and isinstance(source.parent, DictSource):
        return f"`{source.parent.parent.expression()}.{source.key}`"
    return f"`{source.expression()}`"


def _described(guard: Guard, found: Value | None) -> str:
    path = _path(guard.source)  # type: ignore[arg-type]
    if found is None:
        return f"{path} goes away"
    if guard.kind is GuardKind.ABSENT:
        return f"{path} comes into being"
    if isinstance(found, ConstantValue):
        return f"{path} becomes {found.value!r}"[:80]
    cls = _type_of(found)
    if isinstance(found, TensorValue):
        return f"{path} becomes {'another' if guard.kind in (GuardKind.TENSOR, GuardKind.IS) else 'a'} tensor"
    another = cls is None or guard.kind is GuardKind.IS
    return f"{path} becomes {'another object' if another else f'a {cls.__qualname__}'}"  # type: ignore[union-attr]


def _number(guard: Guard, found: Value | None) -> tuple[Any, Any]:
    """The number that becomes another one of its kind, and the other one, if that is known."""
    if guard.kind is not GuardKind.EQUALS or found is None or isinstance(found, LazyValue):
        return None, None
    was = guard.payload[0]
    if type(was) not in _NUMBERS or _type_of(found) is not type(was):
        return None, None
    return was, found.value if isinstance(found, ConstantValue) else None
