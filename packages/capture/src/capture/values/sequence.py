"""Lists, tuples and their kin, slices, and sets: containers that own their items."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from capture.guards.sources import Source
from capture.reasons import Kind
from capture.values.base import LazyValue, NotConstant, Tracer, Value, or_else_asked, own_attribute, realize, settled
from capture.values.set_orders import UNKNOWN, Order, rely_on_order
from capture.values.slots import has_code_for


class SequenceValue(Value):
    """Items in order.  Items that came from a real container stay lazy until someone takes them out."""

    def __init__(self, items: Iterable[Value], source: Source | None = None, cls: type = tuple) -> None:
        self.items = list(items)
        self.source = source
        self.cls = cls

    def python_type(self) -> type:
        return self.cls

    def item(self, ctx: Tracer, index: int) -> Value:
        return realize(ctx, self.items[index])

    def elements(self, ctx: Tracer) -> list[Value]:
        """The items in the order of a set of these keys; that of objects is anyone's guess in Python, too."""
        return list(self.items)

    def truth(self, ctx: Tracer) -> bool:
        return bool(self.items)

    def parts(self) -> Iterator[Value]:
        return iter(self.items)

    def _constants(self) -> list[object]:
        """The items as objects; raises `NotConstant` unless all are constants."""
        return [_constant_item(item) for item in self.items]


def _constant_item(item: Value) -> object:
    item = settled(item)
    if isinstance(item, LazyValue):
        raise NotConstant  # nobody has guarded it: realize first
    return item.constant()


class ListValue(SequenceValue):
    """A list (or deque): mutable, so it has an identity and is never a constant."""

    moves = 0
    """Counts the times that items came or went; the iterators of a deque go by it."""

    def __init__(self, items: Iterable[Value], source: Source | None = None, cls: type = list) -> None:
        super().__init__(items, source, cls)
        self.maxlen: int | None = None

    def constants(self) -> list[object]:
        """The items, where all of them are constants: good for reading at this moment only."""
        return self._constants()

    def grow(self, more: Iterable[Value]) -> None:
        before = len(self.items)
        self.items.extend(more)
        self.moves += len(self.items) - before


class OutsideList(ListValue):
    """A list that existed before.  Until somebody looks into it, nothing depends on what it holds: it may only grow."""

    def __init__(
        self, read: Callable[[], list[Value]], source: Source, symbolic_length: Callable[[], Value | None]
    ) -> None:
        self.source = source
        self.symbolic_length = symbolic_length
        """Gives the length that it had, where that is known to vary."""
        self.cls = list
        self.maxlen = None
        self.added: list[Value] = []
        self._read = read

    def __getattr__(self, name: str) -> object:
        """Reads the items when they are first asked for: a list that only grows is never read."""
        if name != "items":
            raise AttributeError(name)
        self.items = [*self._read(), *self.added]
        return self.items

    def is_unread(self) -> bool:
        """True if nobody has looked into it yet."""
        return "items" not in self.__dict__

    def grow(self, more: Iterable[Value]) -> None:
        if self.is_unread():
            self.added.extend(more)
        else:
            super().grow(more)

    def changes(self) -> Iterator[Value]:
        return iter(self.added) if self.is_unread() else self.parts()


class TupleValue(SequenceValue):
    """A tuple, ``torch.Size``, named tuple or one of torch's return types."""

    held: Mapping[str, object] | None = None
    """The ``__dict__`` of a real one, which instances of subclasses may have."""

    def constant(self) -> Any:
        items = self._constants()
        if self.cls is tuple or self.cls is torch.Size:
            return self.cls(items)
        raise NotConstant

    def identity(self) -> object:
        return self if self.items or self.cls is not tuple else ()  # of which CPython has one

    def attribute(self, ctx: Tracer, name: str) -> Value:
        fields = field_names(self.cls)
        ctx.rely_on_member(self.cls, name)
        if name in fields and type(inspect.getattr_static(self.cls, name)).__name__ in _GETTERS_OF_ITEMS:
            return self.item(ctx, fields.index(name))
        if self.held is not None and (own := own_attribute(ctx, self, self.held, name)) is not None:
            return own
        read = super().attribute
        return or_else_asked(ctx, self, name, lambda: read(ctx, name))


_GETTERS_OF_ITEMS = ("_tuplegetter", "member_descriptor")
"""The types of members that give an item; a subclass may have members of other types by the fields' names."""


def field_names(cls: type) -> tuple[str, ...]:
    """The names of a named tuple's items, also for torch's return types, which keep them as members."""
    fields = getattr(cls, "_fields", None)
    if fields is not None:
        return tuple(fields)
    count = getattr(cls, "n_sequence_fields", 0)
    if not count:
        return ()
    # A structseq's members remember their offset only in their text, but they are defined in order.
    names = [name for name, member in vars(cls).items() if type(member).__name__ == "member_descriptor"]
    return tuple(names[:count])


TUPLE_PROTOCOL = (
    *("__iter__", "__len__", "__getitem__", "__contains__", "__add__", "__mul__", "__rmul__", "__hash__"),
    *("__radd__", "__iadd__", "__imul__", "__reversed__"),
    *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__bool__"),
)


def require_plain_tuple(ctx: Tracer, cls: type) -> None:
    """Breaks the graph where instances of a class derived from ``tuple`` do not behave like tuples."""
    own = next((name for name in TUPLE_PROTOCOL if has_code_for(cls, name)), None)
    if own is not None:
        ctx.stop(Kind.CONTAINER, f"`{cls.__qualname__}` is a class of tuples with a `{own}` of its own")


class SliceValue(Value):
    """A ``slice``, whose parts may be symbols."""

    def __init__(self, start: Value, stop: Value, step: Value) -> None:
        self.start, self.stop, self.step = start, stop, step

    def python_type(self) -> type:
        return slice

    def constant(self) -> Any:
        return slice(*(_constant_item(part) for part in self.parts()))

    def attribute(self, ctx: Tracer, name: str) -> Value:
        if name in ("start", "stop", "step"):
            return realize(ctx, getattr(self, name))
        return super().attribute(ctx, name)

    def parts(self) -> Iterator[Value]:
        return iter((self.start, self.stop, self.step))


class SetValue(Value):
    """A set of hashable values; equal keys are one entry, as in Python."""

    def __init__(
        self, keys: Iterable[Any], source: Source | None = None, cls: type = set, orders: Iterable[Order] = ()
    ) -> None:
        self.entries: dict[object, Value] = {}
        for key, item in keys:
            self.entries.setdefault(key, item)  # of equal items (1 and True) the first stays, as in C
        self.source = source
        self.cls = cls
        self.orders = tuple(orders)
        """The sets on paths whose orders decided in which one the entries came."""

    def python_type(self) -> type:
        return self.cls

    def elements(self, ctx: Tracer) -> list[Value]:
        """The elements in the order of a set of these keys; that of objects is anyone's guess in Python, too."""
        if len(self.entries) > 1:
            self._rely_on_order(ctx)
        if self.source is not None:  # they came in the order of the real set
            return list(self.entries.values())
        return [self.entries[key] for key in self.cls(list(self.entries))]

    def _rely_on_order(self, ctx: Tracer) -> None:
        if self.source is not None and self in ctx.effects.changed():
            ctx.stop(Kind.ITERATION, "a set is gone through whose items came or went")  # to where, only CPython knows
        for order in self.orders:
            rely_on_order(ctx, order)
        self.orders = ()
        if self.source is None:
            ctx.varies(UNKNOWN)

    def truth(self, ctx: Tracer) -> bool:
        return bool(self.entries)

    def parts(self) -> Iterator[Value]:
        return iter(self.entries.values())
