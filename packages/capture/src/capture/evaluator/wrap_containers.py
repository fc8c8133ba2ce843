"""Real containers to values: guarded as far as they are read, past the methods of subclasses."""

from __future__ import annotations

import collections
import enum
import functools
import gc
import sys
from types import FunctionType, MappingProxyType
from typing import Any

import torch

from capture.evaluator.world import World
from capture.evaluator.wrap_rules import symbol_for, wraps
from capture.guards.kinds import GuardKind
from capture.guards.sources import (
    AttrSource,
    ConstSource,
    DictSource,
    GetitemSource,
    ItemSource,
    KeySource,
    MadeSource,
    ObjectKeySource,
    ShownSource,
    Source,
    StorageSource,
)
from capture.reasons import Kind
from capture.silence import records_warnings
from capture.values.base import LazyValue, Value
from capture.values.container_object import ContainerObject, empty_contents, storage_class
from capture.values.mapping import DictValue, ObjectKey, is_compared_by_code
from capture.values.sequence import ListValue, OutsideList, SetValue, TupleValue, require_plain_tuple
from capture.values.user_object import instance_dict


@wraps(list)
def wrap_list(ctx: World, obj: list[object], source: Source) -> Value:
    if records_warnings(obj):
        ctx.stop(Kind.WARNINGS, f"{source.expression()} is what warnings are recorded in, those of the graph too")
    ctx.guard(source, GuardKind.TYPE, list)

    # When somebody looks: a list that is only appended to is not guarded by its length, so it may grow from call to
    # call.
    def read() -> list[Value]:
        ctx.guard(source, GuardKind.LENGTH, len(obj))
        return [LazyValue(item, ItemSource(source, i)) for i, item in enumerate(obj)]

    @functools.cache
    def symbolic_length() -> Value | None:
        # 0 and 1 stay constants, as all sizes do: loops over them are other programs.
        length = MadeSource(source, len)
        return symbol_for(ctx, len(obj), length) if len(obj) > 1 and ctx.is_dynamic(length) else None

    return OutsideList(read, source, symbolic_length)


@wraps(collections.deque)
def wrap_deque(ctx: World, obj: collections.deque[object], source: Source) -> Value:
    ctx.guard(source, GuardKind.TYPE, collections.deque)
    ctx.guard(source, GuardKind.LENGTH, len(obj))
    items = (LazyValue(item, GetitemSource(source, i)) for i, item in enumerate(obj))
    value = ListValue(items, source, collections.deque)
    # What an append throws away depends on it.
    value.maxlen = _maxlen(ctx, obj, source)
    return value


def _maxlen(ctx: World, obj: collections.deque[object], source: Source) -> int | None:
    """The bound of a deque, relied on."""
    # A subclass may have a property by this name, which would be asked by guard and program alike.
    if getattr(type(obj), "maxlen", None) is not _MAXLEN:
        ctx.stop(Kind.CONTAINER, f"{source.expression()} is a deque with another `maxlen`")
    ctx.guard(AttrSource(source, "maxlen"), GuardKind.EQUALS, obj.maxlen)
    return obj.maxlen


_MAXLEN = vars(collections.deque)["maxlen"]


@wraps(tuple)
def wrap_tuple(ctx: World, obj: tuple[object, ...], source: Source) -> Value:
    ctx.guard(source, GuardKind.TYPE, tuple)
    ctx.guard(source, GuardKind.LENGTH, len(obj))
    return TupleValue((LazyValue(item, ItemSource(source, i)) for i, item in enumerate(obj)), source)


def wrap_tuple_subclass(ctx: World, obj: tuple[object, ...], source: Source) -> Value:
    require_plain_tuple(ctx, type(obj))
    ctx.guard(source, GuardKind.TYPE, type(obj))
    ctx.guard(source, GuardKind.LENGTH, len(obj))
    items = (LazyValue(item, GetitemSource(source, i)) for i, item in enumerate(obj))
    value = TupleValue(items, source, type(obj))
    value.held = instance_dict(obj)
    return value


@wraps(dict, collections.OrderedDict, collections.defaultdict)
def wrap_dict(ctx: World, obj: dict[object, object], source: Source) -> Value:
    ctx.guard(source, GuardKind.TYPE, type(obj))
    # All keys are guarded, in their order; a value only when it is read.
    entries = _entries(ctx, obj, source)
    ctx.guard(source, GuardKind.KEYS, tuple(key for key, _ in entries))
    value = DictValue(source, type(obj))
    for key, item in entries:
        hashed = _hashed(ctx, key, source)
        path = ObjectKeySource(source, key) if isinstance(hashed, ObjectKey) else KeySource(source, key)
        value.entries[hashed] = (ctx.literal(key), LazyValue(item, path))
    # What was there at the beginning: effects write only what differs from it.
    value.found = dict(value.entries)
    if attributes := getattr(obj, "__dict__", None):
        ctx.guard(DictSource(source), GuardKind.KEYS, tuple(attributes))
        value.attributes = {n: LazyValue(held, AttrSource(source, n)) for n, held in attributes.items()}
    if isinstance(obj, collections.defaultdict):
        value.default_factory = ctx.wrap(obj.default_factory, AttrSource(source, "default_factory"))
    return value


def _entries(ctx: World, obj: dict[object, object], source: Source) -> list[tuple[object, object]]:
    """The entries of a real mapping, in its own order and past the methods of a subclass."""
    # An OrderedDict has its order in a list of its own, of which ``dict.__iter__`` knows nothing.
    keys: Any = collections.OrderedDict if issubclass(type(obj), collections.OrderedDict) else dict
    try:
        return [(key, dict.__getitem__(obj, key)) for key in keys.__iter__(obj)]
    except (KeyError, RuntimeError):  # changed by methods of ``dict``, which keep no order
        ctx.stop(Kind.CONTAINER, f"{source.expression()} is an OrderedDict whose order is broken")


def wrap_container_object(ctx: World, obj: Any, source: Source) -> Value:
    """An instance of a subclass of a builtin container: its contents are read past the subclass's methods."""
    ctx.guard(source, GuardKind.TYPE, type(obj))
    base: Any = storage_class(type(obj))
    contents = empty_contents(base)
    contents.source = source
    if isinstance(contents, DictValue):
        ctx.guard(source, GuardKind.KEYS, tuple(dict.keys(obj)))
        for key, item in _entries(ctx, obj, source):
            held = LazyValue(item, StorageSource(source, key, base))
            contents.entries[_hashed(ctx, key, source)] = (ctx.literal(key), held)
        if base is collections.defaultdict:
            # The program's code for missing keys runs in the evaluation, as that of any function.
            contents.default_factory = ctx.wrap(obj.default_factory, AttrSource(source, "default_factory"))
    elif base is set:
        ctx.stop(
            Kind.CONTAINER, f"{source.expression()} is a {type(obj).__qualname__}, a subclass of {base.__qualname__}"
        )
    elif isinstance(contents, ListValue):
        ctx.guard(source, GuardKind.LENGTH, base.__len__(obj))
        # By methods of the builtin class where there are such: a ``__getitem__`` of the subclass would be code that
        # guards run.
        step = GetitemSource if base is collections.deque else functools.partial(StorageSource, base_class=base)
        contents.items = [LazyValue(item, step(source, i)) for i, item in enumerate(base.__iter__(obj))]
        contents.maxlen = _maxlen(ctx, obj, source) if base is collections.deque else None
    return ContainerObject(type(obj), contents, obj, source)


_KEY_TYPES = (str, int, float, bool, type(None), bytes, enum.Enum, torch.dtype, torch.device, tuple, type)


def _hashed(ctx: World, key: object, source: Source) -> object:
    """The key under which a key of a real dict is kept."""
    if isinstance(key, tuple):  # named or not: by its items, which may be objects
        return tuple(_hashed(ctx, item, source) for item in key)
    # Constants are kept under themselves: their hash and ``==`` are those of C, so that a dict here finds what
    # CPython's would.
    if isinstance(key, _KEY_TYPES) and not is_compared_by_code(key):
        return key
    # All else by identity, where that is what its hash says; functions, modules and tensors are compared so too.
    hashing: object = type(key).__hash__
    if hashing is not object.__hash__ and not isinstance(key, (FunctionType, torch.nn.Module, torch.Tensor)):
        ctx.stop(Kind.DICT_KEYS, f"`{source.expression()}` has keys with a hash of their own", "use strings or numbers")
    ctx.keys.rely_on_objects(ctx)
    return ObjectKey(ctx.literal(key))


_HELD_BY_A_PROXY = 3
"""The number of references to a dict that only a proxy, a variable and the question refer to."""


@wraps(MappingProxyType)
def wrap_mapping_proxy(ctx: World, obj: MappingProxyType[object, object], source: Source) -> Value:
    """A read-only view of a dict of a class or a library; nobody can change it through here."""
    # A proxy does not say what it shows; the collector does.
    shown = gc.get_referents(obj)[0]
    if type(shown) not in (dict, collections.OrderedDict):
        ctx.stop(Kind.MAPPING, f"`{source.expression()}` shows a mapping with methods of its own")
    # The dict of a class may be written through the class alone, which is guarded as a class.
    if "__module__" not in shown and sys.getrefcount(shown) > _HELD_BY_A_PROXY:
        ctx.stop(Kind.MAPPING, f"`{source.expression()}` shows a dict that others hold, and may change")
    # The members of a class, which one is not told but by a path through it (`ClassValue.attribute`).
    if "__module__" in shown and not (isinstance(source, AttrSource) and source.name == "__dict__"):
        if ctx.effects.classes:
            ctx.stop(Kind.MAPPING, f"`{source.expression()}` shows members of a class, and some were written")
        ctx.effects.shows_classes = True
    if not isinstance(source, ConstSource):
        ctx.guard(ShownSource(source), GuardKind.KEYS, tuple(obj))
    value = DictValue(source, MappingProxyType)
    value.entries = {key: (ctx.literal(key), LazyValue(item, GetitemSource(source, key))) for key, item in obj.items()}
    return value


def _is_constant(item: object) -> bool:
    """True for an item of a set that is found by its value, all the way down."""
    if isinstance(item, (tuple, frozenset)):
        return all(map(_is_constant, item))
    return isinstance(item, _KEY_TYPES) and not is_compared_by_code(item)


@wraps(set)
def wrap_set(ctx: World, obj: set[object], source: Source) -> Value:
    # A set has no positions: an item in it has no path by which it could be read again.
    if not all(map(_is_constant, obj)):
        ctx.stop(Kind.SET_ITEMS, f"`{source.expression()}` has items that are not constants")
    ctx.guard(source, GuardKind.ITEMS, frozenset(obj), text=f"{source.expression()} is {obj!r}")
    return SetValue(((item, ctx.literal(item)) for item in obj), source, orders=[(source, tuple(obj))])
