"""Values and sources to instructions: how the transformed code gets hold of what the evaluation left behind.

A value with a source is read from it; a result of the graph is a local; anything else is built anew, once, so that
what was one
object stays one.  Which values are wanted, and when, is decided by ``translate``.
"""

from __future__ import annotations

import collections
import functools
import itertools
import types
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any

from capture.emitting import Emitter
from capture.errors import Reason, SkipFrame
from capture.sources import (
    ArgSource,
    AttrSource,
    CellSource,
    ClosureSource,
    ConstSource,
    Derived,
    DictSource,
    GlobalSource,
    ItemSource,
    KeySource,
    Source,
    TypeSource,
)
from capture.values.base import LazyValue, Value, settled
from capture.values.constant import UNBOUND, ConstantValue
from capture.values.context import TorchContext
from capture.values.exception import ExceptionValue
from capture.values.function import (
    BoundMethod,
    BuiltinValue,
    CellValue,
    ClassValue,
    FunctionValue,
    NamespaceValue,
    PartialValue,
    PythonModuleValue,
    SuperValue,
)
from capture.values.iterator import (
    ChainIterator,
    CountIterator,
    FilterIterator,
    MapIterator,
    RangeIterator,
    SequenceIterator,
    ZipIterator,
)
from capture.values.mapping import DictValue, DictView
from capture.values.module import ModuleValue
from capture.values.sequence import ListValue, SetValue, SliceValue, TupleValue
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorMethod, TensorValue
from capture.values.user_object import UserObject

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
        self._locals: dict[int, str] = {}
        self._keep: list[Value] = []
        self._paths: dict[Source, str] = {}
        self._uses: collections.Counter[Source] = collections.Counter()
        self._count = 0

    # -- locals of our own ---------------------------------------------------------------------------------------

    def fresh(self, purpose: str) -> str:
        self._count += 1
        return f"__capture_{purpose}_{self._count}"

    def keep(self, value: Value, purpose: str = "kept") -> None:
        """Store the top of the stack as ``value``'s object from now on."""
        name = self.fresh(purpose)
        self._locals[id(value)] = name
        self._keep.append(value)
        self.emit.store_fast(name)

    def is_kept(self, value: Value) -> bool:
        return id(value) in self._locals

    # -- values --------------------------------------------------------------------------------------------------

    def load(self, value: Value) -> None:
        """Push the object that ``value`` stands for."""
        value = settled(value)
        name = self._locals.get(id(value))
        if name is not None:
            self.emit.load_fast(name)
        elif value.source is not None:
            self.load_source(value.source)
        else:
            self._build(value)

    def _build(self, value: Value) -> None:
        builder = _BUILDERS.get(type(value))
        if builder is None:
            raise SkipFrame(Reason("rebuild", f"{value.describe()} lives across a break, which cannot be rebuilt"))
        builder(self, value)

    def load_all(self, values: Iterable[Value]) -> int:
        count = 0
        for value in values:
            self.load(value)
            count += 1
        return count

    def call_const(self, function: Any, *values: Value) -> None:
        self.emit.load_callable(function)
        self.emit.call(self.load_all(values))

    # -- sources -------------------------------------------------------------------------------------------------

    def share(self, sources: Iterable[Source]) -> None:
        """Announce what will be read, so that common beginnings of paths are read once."""
        seen: set[Source] = set()
        for source in sources:
            for step in source.chain():
                if step not in seen:
                    seen.add(step)
                    if step.base is not None:
                        self._uses[step.base] += 1

    def forget_paths(self) -> None:
        """Paths may lead elsewhere from here on."""
        self._paths.clear()
        self._uses.clear()

    def load_source(self, source: Source) -> None:
        name = self._paths.get(source)
        if name is not None:
            self.emit.load_fast(name)
            return
        self._read(source)
        if isinstance(source, Derived) and self._uses[source] > 1:
            name = self._paths[source] = self.fresh("path")
            self.emit.copy()
            self.emit.store_fast(name)

    def _read(self, source: Source) -> None:
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
            case TypeSource():
                emit.load_callable(type)
                self.load_source(source.parent)
                emit.call(1)
            case AttrSource():
                self.load_source(source.parent)
                emit.load_attr(source.name)
            case DictSource():
                self.load_source(source.parent)
                emit.load_attr("__dict__")
            case KeySource(parent=DictSource() as holder) if isinstance(source.key, str):
                self.load_source(holder.parent)
                emit.load_attr(source.key)
            case Derived():
                self.load_source(source.parent)
                emit.load_const(source.index if isinstance(source, ItemSource) else source.key)  # type: ignore[attr-defined]
                emit.binary_subscr()
            case _:
                raise TypeError(f"no instructions read {source!r}")

    # -- effects -------------------------------------------------------------------------------------------------

    def replay(self, value: Value) -> None:
        """Make the changes of an object real."""
        _REPLAYS[type(value)](self, value)


# -- leaves ------------------------------------------------------------------------------------------------------


@builds(ConstantValue)
def build_constant(writer: Writer, value: ConstantValue) -> None:
    writer.emit.load_const(value.value)


@builds(TensorValue, SymbolicNumber)
def build_result(writer: Writer, value: Value) -> None:
    raise AssertionError(f"{value!r} is no output of the graph")


@builds(LazyValue)
def build_lazy(writer: Writer, value: LazyValue) -> None:
    assert value.source is not None
    writer.load_source(value.source)


@builds(ClassValue)
def build_class(writer: Writer, value: ClassValue) -> None:
    writer.emit.load_const(value.cls)


@builds(PythonModuleValue)
def build_python_module(writer: Writer, value: PythonModuleValue) -> None:
    writer.emit.load_const(value.module)


@builds(NamespaceValue)
def build_namespace(writer: Writer, value: NamespaceValue) -> None:
    writer.call_const(globals)


# -- containers --------------------------------------------------------------------------------------------------


@builds(TupleValue)
def build_tuple(writer: Writer, value: TupleValue) -> None:
    plain = value.cls is tuple
    named = hasattr(value.cls, "_fields")
    if named:
        writer.emit.load_callable(tuple.__new__)
        writer.emit.load_const(value.cls)
    elif not plain:
        writer.emit.load_callable(value.cls)
    writer.emit.build_tuple(writer.load_all(value.items))
    if not plain:
        writer.emit.call(2 if named else 1)
    if value.items:
        writer.emit.copy()
        writer.keep(value, "tuple")


@builds(ListValue)
def build_list(writer: Writer, value: ListValue) -> None:
    if value.cls is list:
        writer.emit.build_list(writer.load_all(value.items))
    else:
        writer.emit.load_callable(value.cls)
        writer.emit.build_list(writer.load_all(value.items))
        writer.emit.load_const(value.maxlen)
        writer.emit.call(2)
    writer.emit.copy()
    writer.keep(value, "list")


@builds(DictValue)
def build_dict(writer: Writer, value: DictValue) -> None:
    arguments = 1
    if value.cls is not dict:
        writer.emit.load_callable(value.cls)
    if value.default_factory is not None:
        writer.load(value.default_factory)
        arguments = 2
    writer.emit.build_map(writer.load_all(value.parts()) // 2)
    if value.cls is not dict:
        writer.emit.call(arguments)
    writer.emit.copy()
    writer.keep(value, "dict")


@builds(SetValue)
def build_set(writer: Writer, value: SetValue) -> None:
    if not value.entries or value.cls is frozenset:
        writer.emit.load_callable(value.cls)
        writer.emit.build_tuple(writer.load_all(value.parts()))
        writer.emit.call(1)
    else:
        writer.emit.build_set(writer.load_all(value.parts()))
    writer.emit.copy()
    writer.keep(value, "set")


@builds(SliceValue)
def build_slice(writer: Writer, value: SliceValue) -> None:
    writer.emit.build_slice(writer.load_all(value.parts()))


@builds(DictView)
def build_view(writer: Writer, value: DictView) -> None:
    writer.load(value.owner)
    writer.emit.load_attr(value.which)
    writer.emit.to_callable()
    writer.emit.call(0)


# -- callables ---------------------------------------------------------------------------------------------------


@builds(FunctionValue)
def build_function(writer: Writer, value: FunctionValue) -> None:
    emit = writer.emit
    emit.load_callable(types.FunctionType)
    emit.load_const(value.code)
    writer.load(value.namespace)
    emit.load_const(value.code.co_name)
    emit.build_tuple(writer.load_all(value.defaults))
    emit.build_tuple(writer.load_all(value.closure))
    emit.call(5)
    emit.copy()
    writer.keep(value, "function")
    writable: dict[str, Callable[[], None]] = {}
    if value.keyword_defaults:
        pairs = [part for name, item in value.keyword_defaults.items() for part in (ConstantValue(name), item)]
        writable["__kwdefaults__"] = lambda: emit.build_map(writer.load_all(pairs) // 2)
    for name, attribute in value.attributes.items():
        writable[name] = functools.partial(writer.load, attribute)
    for name, load in writable.items():
        emit.copy()
        load()
        emit.swap(2)
        emit.store_attr(name)


@builds(CellValue)
def build_cell(writer: Writer, value: CellValue) -> None:
    # The cell exists before its content: a recursive function's cell holds the function that holds the cell.
    emit = writer.emit
    emit.load_callable(types.CellType)
    emit.call(0)
    writer.keep(value, "cell")
    if value.content is not UNBOUND:
        writer.load(value.content)
        writer.load(value)
        emit.store_attr("cell_contents")
    writer.load(value)


@builds(BoundMethod)
def build_method(writer: Writer, value: BoundMethod) -> None:
    writer.call_const(types.MethodType, value.function, value.receiver)


@builds(BuiltinValue)
def build_builtin(writer: Writer, value: BuiltinValue) -> None:
    if value.receiver is None:
        writer.emit.load_const(value.function)
    elif isinstance(value.receiver, TorchContext):
        writer.load(value.receiver)
        writer.emit.load_attr(_CONTEXT_METHODS[value.function.__name__])
    else:
        # By the function, never by its name: the receiver's class may have overridden what ``super()`` found.
        bind = (
            value.function.__get__
            if hasattr(value.function, "__objclass__")
            else functools.partial(types.MethodType, value.function)
        )
        writer.call_const(bind, value.receiver)


_CONTEXT_METHODS = {"enter_context": "__enter__", "leave_context": "__exit__", "clone_context": "clone"}


@builds(TensorMethod)
def build_tensor_method(writer: Writer, value: TensorMethod) -> None:
    writer.load(value.owner)
    writer.emit.load_attr(value.name)


@builds(PartialValue)
def build_partial(writer: Writer, value: PartialValue) -> None:
    emit = writer.emit
    emit.load_callable(functools.partial)
    count = writer.load_all([value.function, *value.args, *value.kwargs.values()])
    emit.call_kw(count, tuple(value.kwargs))
    emit.copy()
    writer.keep(value, "partial")


@builds(SuperValue)
def build_super(writer: Writer, value: SuperValue) -> None:
    writer.emit.load_callable(super)
    writer.emit.load_const(value.cls)
    writer.load(value.receiver)
    writer.emit.call(2)


# -- iterators ---------------------------------------------------------------------------------------------------


def _kept(build: Builder) -> Builder:
    """An iterator has a position: it must stay one object."""

    def build_and_keep(writer: Writer, value: Any) -> None:
        build(writer, value)
        writer.emit.copy()
        writer.keep(value, "iterator")

    return build_and_keep


@builds(SequenceIterator)
@_kept
def build_sequence_iterator(writer: Writer, value: SequenceIterator) -> None:
    if isinstance(value.owner, ListValue):
        writer.load(value.owner)
        writer.emit.load_const(slice(value.position, None))
        writer.emit.binary_subscr()
    else:
        writer.emit.build_tuple(writer.load_all(value.parts()))
    writer.emit.get_iter()


@builds(RangeIterator)
@_kept
def build_range_iterator(writer: Writer, value: RangeIterator) -> None:
    writer.emit.load_const(value.values[value.position :])
    writer.emit.get_iter()


@builds(CountIterator)
@_kept
def build_count(writer: Writer, value: CountIterator) -> None:
    writer.call_const(itertools.count, value.current, value.stride)


@builds(ZipIterator)
@_kept
def build_zip(writer: Writer, value: ZipIterator) -> None:
    writer.emit.load_callable(zip)
    count = writer.load_all(value.iterators)
    writer.load(ConstantValue(value.strict))
    writer.emit.call_kw(count + 1, ("strict",))


@builds(MapIterator)
@_kept
def build_map_iterator(writer: Writer, value: MapIterator) -> None:
    if isinstance(value.over, ZipIterator):
        writer.call_const(map, value.function, *value.over.iterators)
    else:
        writer.call_const(itertools.starmap, value.function, value.over)


@builds(FilterIterator)
@_kept
def build_filter(writer: Writer, value: FilterIterator) -> None:
    writer.call_const(filter, value.predicate, value.over)


@builds(ChainIterator)
@_kept
def build_chain(writer: Writer, value: ChainIterator) -> None:
    writer.emit.load_callable(itertools.chain.from_iterable)
    writer.load(value.iterables)
    writer.emit.call(1)
    if value.current is not None:
        rest = writer.fresh("rest")
        writer.emit.store_fast(rest)
        writer.emit.load_callable(itertools.chain)
        writer.load(value.current)
        writer.emit.load_fast(rest)
        writer.emit.call(2)


# -- objects -----------------------------------------------------------------------------------------------------


@builds(UserObject)
def build_object(writer: Writer, value: UserObject) -> None:
    emit = writer.emit
    emit.load_callable(object.__new__)
    writer.load(_class_value(value))
    emit.call(1)
    _fill_object(writer, value)


@builds(ExceptionValue)
def build_exception(writer: Writer, value: ExceptionValue) -> None:
    emit = writer.emit
    emit.load_callable(value.cls.__new__)
    writer.load(_class_value(value))
    emit.call(1 + writer.load_all(value.new_args))
    _fill_object(writer, value)


def _class_value(value: UserObject) -> ClassValue:
    return ClassValue(value.cls, value.class_source)


def _fill_object(writer: Writer, value: UserObject) -> None:
    writer.keep(value, "object")
    _write_attributes(writer, value)
    writer.load(value)


def _write_attributes(writer: Writer, value: UserObject) -> None:
    """Assignments past the class's own ``__setattr__``: what that does was evaluated already."""
    own = isinstance(value.cls.__setattr__, types.FunctionType) and not isinstance(value, ModuleValue)
    for name, item in value.overlay.items():
        if item is None:
            writer.load(value)
            writer.emit.delete_attr(name)
        elif own or value.source is None:
            writer.call_const(object.__setattr__, value, ConstantValue(name), item)
            writer.emit.pop()
        else:
            writer.load(item)
            writer.load(value)
            writer.emit.store_attr(name)


# -- effects -----------------------------------------------------------------------------------------------------


@replays(UserObject, ModuleValue, ExceptionValue)
def replay_object(writer: Writer, value: UserObject) -> None:
    _write_attributes(writer, value)


@replays(ListValue)
def replay_list(writer: Writer, value: ListValue) -> None:
    emit = writer.emit
    emit.build_list(writer.load_all(value.items))
    if value.cls is list:
        writer.load(value)
        emit.load_const(slice(None))
        emit.store_subscr()
    else:
        _refill(writer, value, "extend")


@replays(DictValue)
def replay_dict(writer: Writer, value: DictValue) -> None:
    writer.emit.build_map(writer.load_all(value.parts()) // 2)
    _refill(writer, value, "update")


@replays(SetValue)
def replay_set(writer: Writer, value: SetValue) -> None:
    writer.emit.build_list(writer.load_all(value.parts()))
    _refill(writer, value, "update")


def _refill(writer: Writer, value: Value, method: str) -> None:
    """Empty the container and fill it with what is on top of the stack."""
    emit, contents = writer.emit, writer.fresh("contents")
    emit.store_fast(contents)
    for name, count in (("clear", 0), (method, 1)):
        writer.load(value)
        emit.load_attr(name)
        emit.to_callable()
        if count:
            emit.load_fast(contents)
        emit.call(count)
        emit.pop()


@replays(CellValue)
def replay_cell(writer: Writer, value: CellValue) -> None:
    emit = writer.emit
    if value.content is UNBOUND:
        writer.load(value)
        emit.delete_attr("cell_contents")
        return
    writer.load(value.content)
    writer.load(value)
    emit.store_attr("cell_contents")


@replays(NamespaceValue)
def replay_namespace(writer: Writer, value: NamespaceValue) -> None:
    emit = writer.emit
    for name, item in value.written.items():
        if item is None:
            writer.load(value)
            emit.load_const(name)
            emit.delete_subscr()
        else:
            writer.load(item)
            writer.load(value)
            emit.load_const(name)
            emit.store_subscr()


def is_result(value: Value) -> bool:
    """Whether the graph computes it."""
    return isinstance(value, (TensorValue, SymbolicNumber)) and value.source is None
