"""Values and sources to instructions: how the transformed code gets hold of what the evaluation left behind.

A value with a source is read from it; a result of the graph is a local; anything else is built anew, once, so that
what was one
object stays one.  Which values are wanted, and when, is decided by ``translate``.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

from capture.bytecode.emitter import Emitter
from capture.errors import SkipFrame
from capture.guards.sources import (
    ArgSource,
    AttrSource,
    CallSource,
    CellSource,
    ClosureSource,
    ConstSource,
    Derived,
    DictSource,
    FormulaSource,
    GlobalSource,
    HiddenEntrySource,
    ItemSource,
    KeySource,
    MadeSource,
    NumberSource,
    Source,
    StorageSource,
    TypeSource,
)
from capture.reasons import Kind, Reason
from capture.values.base import Value, settled
from capture.values.constant import ConstantValue
from capture.values.context_var import TokenValue
from capture.values.exception import ExceptionValue
from capture.values.generator import SuspendableValue
from capture.values.parameters import argument_names
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue

Builder = Callable[["Writer", Any], None]
_BUILDERS: dict[type, Builder] = {}
_REPLAYS: dict[type, Builder] = {}


def builds(*kinds: type) -> Callable[[Builder], Builder]:
    """Registers how a value of these kinds is made when it has no source."""

    def register(builder: Builder) -> Builder:
        for kind in kinds:
            _BUILDERS[kind] = builder
        return builder

    return register


def replays(*kinds: type) -> Callable[[Builder], Builder]:
    """Registers how the changes of an object that existed before are made real."""

    def register(builder: Builder) -> Builder:
        for kind in kinds:
            _REPLAYS[kind] = builder
        return builder

    return register


class Writer:
    """Writes the code around one graph."""

    def __init__(self, code: CodeType, emit: Emitter) -> None:
        self.code = code
        self.emit = emit
        # The local that holds a value's object, by the value's identity; ``_keep`` keeps the values, and so the ids,
        # alive.
        self._locals: dict[int, str] = {}
        self._keep: list[Value] = []
        # Values under construction: met again, one refers to itself.
        self._building: set[int] = set()
        # Beginnings of paths that were read into a local; ``_uses`` counts how many paths go on from each.
        self._paths: dict[Source, str] = {}
        self._uses: collections.Counter[Source] = collections.Counter()
        # Numbers that are read once, and the locals that hold those that were.
        self._once: frozenset[Source] = frozenset()
        self._numbers: dict[Source, str] = {}
        # Locals that were unbound.
        self._gone: set[str] = set()
        self._count = 0
        self._on_read: Callable[[Source], None] | None = None

    # -- locals of our own ---------------------------------------------------------------------------------------

    def fresh(self, purpose: str) -> str:
        self._count += 1
        return f"__capture_{purpose}_{self._count}"

    def keep(self, value: Value, purpose: str = "kept") -> None:
        """Stores the top of the stack as ``value``'s object from now on."""
        name = self.fresh(purpose)
        self._locals[id(value)] = name
        self._keep.append(value)
        self.emit.store_fast(name)

    def is_kept(self, value: Value) -> bool:
        return id(value) in self._locals

    def let_go(self, wanted: Iterable[Value]) -> None:
        """Unbinds the local variables but for those of ``wanted``: from here on the program may look what is gone."""
        spared = set()
        for value in map(settled, wanted):
            # Of an object that is more than its contents, the object.
            value = value.whole or value
            argument = value.source.name if isinstance(value.source, ArgSource) else None
            spared.add(self._locals.get(id(value), argument))
        for name in self._bound():
            if name not in spared:
                self.emit.delete_fast(name)
                self._gone.add(name)

    def let_go_all(self) -> None:
        """Unbinds what is left, at the end of one of several ways."""
        for name in self._bound():
            self.emit.delete_fast(name)

    def _bound(self) -> list[str]:
        """The variables that are bound here: arguments, and locals of our own."""
        names = dict.fromkeys([*argument_names(self.code), *self._locals.values()])
        return [name for name in names if name not in self._gone]

    # -- values --------------------------------------------------------------------------------------------------

    def load(self, value: Value) -> None:
        """Pushes the object that ``value`` stands for."""
        value = settled(value)
        value = value.whole or value
        name = self._locals.get(id(value))
        if name is not None:
            self.emit.load_fast(name)
        elif value.source is not None:
            self.load_source(value.source)
        else:
            self._build(value)

    def can_load(self, value: Value) -> bool:
        """True if there are instructions for it."""
        value = settled(value)
        value = value.whole or value
        return value.source is not None or is_result(value) or _builder_of(value) is not None

    def makes(self, value: Value) -> bool:
        """True if a new object is made for it, which takes calls."""
        value = settled(value)
        value = value.whole or value
        known = self.is_kept(value) or value.source is not None or is_result(value)
        return not known and not isinstance(value, (ConstantValue, TokenValue))

    def _build(self, value: Value) -> None:
        """Builds the object; one that cannot be made, or is a part of itself, leaves the frame to CPython."""
        builder = _builder_of(value)
        if builder is None:
            raise SkipFrame(Reason(Kind.REBUILD, f"{value.describe()} lives across a break, which cannot be rebuilt"))
        if id(value) in self._building:
            raise SkipFrame(Reason(Kind.REBUILD, f"{value.describe()} refers to itself"))
        self._building.add(id(value))
        builder(self, value)
        self._building.discard(id(value))

    def load_all(self, values: Iterable[Value]) -> int:
        count = 0
        for value in values:
            self.load(value)
            count += 1
        return count

    def call_const(self, function: Any, *values: Value) -> None:
        self.emit.load_callable(function)
        self.emit.call(self.load_all(values))

    def call_uninterrupted(self, function: Callable[..., object], *values: Value) -> None:
        """Writes a call as ``call_const`` does, after which no other thread runs before the next instruction."""
        self.emit.load_uninterrupted(function)
        self.emit.call_uninterrupted(self.load_all(values))

    # -- sources -------------------------------------------------------------------------------------------------

    def share(self, sources: Iterable[Source]) -> None:
        """Announces what will be read, so that common beginnings of paths are read once."""
        # A step that several sources share is counted once for each step that goes on from it, not for each source.
        seen: set[Source] = set()
        for source in sources:
            for step in source.chain():
                if step not in seen:
                    seen.add(step)
                    if step.base is not None:
                        self._uses[step.base] += 1

    @contextmanager
    def reading_once(self, numbers: Iterable[Source]) -> Iterator[None]:
        """A context of code that all others follow: whoever reads one of these numbers later has the same, whatever
        another thread or the handler of a signal has put there."""
        self._once = frozenset(numbers)
        try:
            yield
        finally:
            self._once = frozenset()

    def forget_paths(self) -> None:
        """Forgets what was read: paths may lead elsewhere from here on."""
        self._paths.clear()
        self._uses.clear()

    def watch(self, on_read: Callable[[Source], None] | None) -> None:
        """Has `on_read` called with each source that is read; the object is on top then."""
        self._on_read = on_read

    def load_anew(self, source: Source) -> None:
        """Reads a source from its path, whatever was read there before."""
        paths, self._paths = self._paths, {}
        uses, self._uses = self._uses, collections.Counter()
        numbers, self._numbers = self._numbers, {}
        self.load_source(source)
        self._paths, self._uses, self._numbers = paths, uses, numbers

    def load_source(self, source: Source) -> None:
        """Pushes what is on the path, read once where several paths share it."""
        name = self._paths.get(source) or self._numbers.get(source)
        if name is not None:
            self.emit.load_fast(name)
            return
        self._read(source)
        if self._on_read is not None:
            self._on_read(source)
        # Read by more than one: kept, for the next.
        if isinstance(source, Derived) and self._uses[source] > 1:
            name = self._paths[source] = self.fresh("path")
            self.emit.copy()
            self.emit.store_fast(name)
        if source in self._once:
            name = self._numbers[source] = self.fresh("number")
            self.emit.copy()
            self.emit.store_fast(name)

    def _read(self, source: Source) -> None:
        """Pushes what one step of a path leads to, by the same access as the guards'."""
        emit = self.emit
        match source:
            case ArgSource():
                emit.load_fast(source.name)
            case ClosureSource():
                emit.load_deref(source.name)
            case CellSource():
                emit.load_cell(source.name)
            case GlobalSource():
                emit.load_global(source.name)
            case ConstSource():
                emit.load_const(source.obj)
            case NumberSource():
                emit.load_const(source.number)
            case CallSource():
                self._call(source.function)
            case FormulaSource():
                self._call(source.function, *source.operands)
            case TypeSource():
                self._call(type, source.parent)
            case MadeSource():
                self._call(source.function, source.parent)
            case AttrSource():
                self.load_source(source.parent)
                emit.load_attr(source.name)
            case DictSource():
                emit.load_callable(object.__getattribute__)
                self.load_source(source.parent)
                emit.load_const("__dict__")
                emit.call(2)
            case StorageSource():
                emit.load_callable(source.base_class.__getitem__)
                self.load_source(source.parent)
                emit.load_const(source.key)
                emit.call(2)
            # An entry of an object's ``__dict__`` that is its attribute, too: reading that is faster and makes no dict.
            case KeySource(parent=DictSource() as holder) if _is_attribute(source):
                self.load_source(holder.parent)
                emit.load_attr(source.key)
            case Derived():
                self.load_source(source.parent)
                emit.load_const(source.index if isinstance(source, ItemSource) else source.key)  # type: ignore[attr-defined]
                emit.binary_subscr()
            case _:
                raise TypeError(f"no instructions read {source!r}")

    def _call(self, function: Callable[..., object], *operands: Source) -> None:
        self.emit.load_callable(function)
        for operand in operands:
            self.load_source(operand)
        self.emit.call(len(operands))

    # -- effects -------------------------------------------------------------------------------------------------

    def replay(self, value: Value) -> None:
        """Makes the changes of an object real."""
        _REPLAYS[type(value)](self, value)


def _builder_of(value: Value) -> Builder | None:
    """The builder for a value; None where nothing of ours could make the object.

    Nothing has the traceback of an exception that was raised and caught, nor a frame that was started.
    """
    if isinstance(value, ExceptionValue) and value.caught:
        return None
    if isinstance(value, SuspendableValue) and (value.started or value.finished):
        return None
    return _BUILDERS.get(type(value))


def _is_attribute(source: KeySource) -> bool:
    return isinstance(source.key, str) and not isinstance(source, HiddenEntrySource)


def is_result(value: Value) -> bool:
    """True if the graph computes it."""
    return isinstance(value, (TensorValue, SymbolicNumber)) and value.source is None
