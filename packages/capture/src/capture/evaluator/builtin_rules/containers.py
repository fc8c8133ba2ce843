"""Methods of lists, tuples, dicts, sets and strings, and the classes as constructors.

The receiver is the contents: for an object of a subclass ``dispatch`` takes them out before, and ``leave_subclass``
refuses what would have to give an object of that subclass.  ``ctx.changed`` comes before a change, while ``moves``
counts those that iterators under way would notice.
"""

from __future__ import annotations

import collections
import operator
import sys
from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Any

from capture.evaluator.builtin_rules.equality import values_equal
from capture.evaluator.builtin_rules.indexing import index_of
from capture.evaluator.builtin_rules.registry import constant_of, rule
from capture.evaluator.world import World
from capture.reasons import Kind
from capture.values.base import Tracer, Value, callable_type, derives, realize, throw_as
from capture.values.constant import NONE, ConstantValue, is_none
from capture.values.container_object import ContainerObject, contents_of, leave_own_walk, leave_subclass
from capture.values.function import BuiltinValue
from capture.values.iterating import has_items, iterate
from capture.values.iterator import IteratorValue
from capture.values.mapping import DictValue, DictView, key_of
from capture.values.sequence import ListValue, SequenceValue, SetValue, TupleValue, require_plain_tuple
from capture.values.user_object import UserObject

_CONTAINERS = (SequenceValue, DictValue, SetValue)

# -- lists -------------------------------------------------------------------------------------------------------


@rule(list.append, collections.deque.append, kinds=(ListValue, None))
def append(ctx: Tracer, items: ListValue, item: Value) -> Value:
    ctx.changed(items)
    # The item stays unseen: nothing is relied on about it.
    items.grow([item])
    _respect_maxlen(items)
    return NONE


def _respect_maxlen(items: ListValue) -> None:
    """Drops what is too many for a bounded deque, at the end where it was not added."""
    if items.maxlen is not None and len(items.items) > items.maxlen:
        # A bounded deque drops at the other end.
        del items.items[: len(items.items) - items.maxlen]


@rule(list.extend, collections.deque.extend, kinds=(ListValue, None))
def extend(ctx: World, items: ListValue, more: Value) -> Value:
    # Noted before anything is read: reading may run code of the program, which may change it as well.
    ctx.changed(items)
    if isinstance(contents_of(realize(ctx, more)), SequenceValue):  # read to its end first: it may be this very one
        items.grow(iterate(ctx, more).rest(ctx))
        _respect_maxlen(items)
        return NONE
    iterator = iterate(ctx, more)
    # In this order in C: an iterator, then a hint, then items.
    ask_for_length(ctx, more)
    while (item := iterator.step(ctx)) is not None:  # what came before an exception stays
        append(ctx, items, item)
    return NONE


@rule(collections.deque.appendleft, kinds=(ListValue, None))
def append_left(ctx: Tracer, items: ListValue, item: Value) -> Value:
    ctx.changed(items)
    items.items.insert(0, item)
    items.moves += 1
    if items.maxlen is not None:
        del items.items[items.maxlen :]
    return NONE


@rule(collections.deque.popleft, kinds=(ListValue,))
def pop_left(ctx: Tracer, items: ListValue) -> Value:
    if not items.items:
        throw_as(ctx, collections.deque().popleft)
    return _taken(ctx, items, 0)


@rule(list.insert, kinds=(ListValue, None, None))
def insert(ctx: Tracer, items: ListValue, index: Value, item: Value) -> Value:
    position = index_of(ctx, index)
    if abs(position) > sys.maxsize:
        throw_as(ctx, [].insert, position, None)
    ctx.changed(items)
    # Python cuts a position that is too large or too small, and so does this list.
    items.items.insert(position, item)
    return NONE


@rule(collections.deque.pop, kinds=(ListValue,))
def pop_right(ctx: World, items: ListValue, /) -> Value:
    return pop(ctx, items)


@rule(list.pop, kinds=(ListValue,))
def pop(ctx: Tracer, items: ListValue, index: Value | None = None) -> Value:
    position = -1 if index is None else index_of(ctx, index)
    # Python's own words, by making it raise: they differ between lists, deques and releases.
    if not items.items:
        throw_as(ctx, (collections.deque if items.cls is collections.deque else list)().pop)
    if not -len(items.items) <= position < len(items.items):
        throw_as(ctx, [0].pop, 1)
    return _taken(ctx, items, position)


def _taken(ctx: Tracer, items: ListValue, position: int) -> Value:
    """An item that leaves, which is noted of a container that others may look into as well."""
    ctx.changed(items)
    items.moves += 1
    item = realize(ctx, items.items.pop(position))
    ctx.effects.take(ctx, items, item)
    return item


@rule(list.remove, kinds=(ListValue, None))
def remove(ctx: Tracer, items: ListValue, item: Value) -> Value:
    # Each comparison may run code of the program, and is asked only until one holds.
    for position, other in enumerate(items.items):
        if values_equal(ctx, other, item):
            ctx.changed(items)
            del items.items[position]
            return NONE
    return throw_as(ctx, [].remove, 0)


@rule(list.clear, collections.deque.clear, kinds=(ListValue,))
def clear(ctx: Tracer, items: ListValue) -> Value:
    ctx.changed(items)
    items.moves += bool(items.items)
    items.items.clear()
    return NONE


@rule(list.reverse, kinds=(ListValue,))
def reverse(ctx: Tracer, items: ListValue) -> Value:
    ctx.changed(items)
    items.items.reverse()
    return NONE


@rule(list.copy, collections.deque.copy, kinds=(ListValue,))
def copy_list(ctx: Tracer, items: ListValue) -> Value:
    leave_subclass(ctx, items)
    made = ListValue(items.items, cls=items.cls)
    made.maxlen = items.maxlen
    return made


@rule(list.sort, kinds=(ListValue,))
def sort(ctx: Tracer, items: ListValue, **options: Value) -> Value:
    # Sorted aside: what a key function raises leaves the list as it was.
    ordered = ctx.call_builtin(sorted, [items], options)
    ctx.changed(items)
    items.items = ordered.elements(ctx)
    return NONE


@rule(list.index, tuple.index, kinds=(SequenceValue, None))
def find(ctx: Tracer, items: SequenceValue, item: Value) -> Value:
    for position, other in enumerate(items.items):
        if values_equal(ctx, other, item):
            return ConstantValue(position)
    return ctx.throw(
        ValueError, f"{item.constant()!r} is not in list" if items.cls is list else "tuple.index(x): x not in tuple"
    )


@rule(list.count, tuple.count, kinds=(SequenceValue, None))
def count(ctx: Tracer, items: SequenceValue, item: Value) -> Value:
    return ConstantValue(sum(bool(values_equal(ctx, other, item)) for other in items.items))


@rule(list)
def make_list(ctx: Tracer, iterable: Value | None = None) -> Value:
    return ListValue([] if iterable is None else items_of(ctx, iterable))


@rule(tuple)
def make_tuple(ctx: Tracer, iterable: Value | None = None) -> Value:
    if isinstance(iterable, TupleValue) and iterable.cls is tuple:
        # An exact tuple is itself, as in Python; a program may ask with `is`.
        return iterable
    return TupleValue([] if iterable is None else items_of(ctx, iterable))


def items_of(ctx: Tracer, iterable: Value) -> list[Value]:
    """All items, taken as lists and tuples take them."""
    iterator = iterate(ctx, iterable)
    ask_for_length(ctx, iterable)
    return iterator.rest(ctx)


def ask_for_length(ctx: Tracer, iterable: Value) -> None:
    """Asks an iterable for its length, as whoever makes room for its items does; its own answer may be noticed."""
    iterable = realize(ctx, iterable)
    if not isinstance(iterable, UserObject):
        return
    # Methods of the builtin containers say how long they are and do nothing else: not worth a call.
    for name in ("__len__", "__length_hint__"):
        method = iterable.special(ctx, name)
        if method is None or isinstance(method, BuiltinValue):
            continue
        said = ctx.attempt(method, TypeError)
        said = None if said is None else realize(ctx, said)
        if isinstance(said, ConstantValue) and said.value is NotImplemented:
            continue
        if said is not None:
            if not isinstance(said, ConstantValue) or not isinstance(said.value, int) or said.value < 0:
                ctx.stop(Kind.SPECIAL_METHOD, f"`{name}` gives {said.describe()}")
            return


@rule(collections.deque)
def make_deque(ctx: Tracer, iterable: Value | None = None, maxlen: Value = NONE) -> Value:
    most = maxlen.constant()
    if most is not None and not (isinstance(most, int) and most >= 0):
        ctx.stop(Kind.CONTAINER, f"a deque is made of at most {maxlen.describe()}")
    made = ListValue([] if iterable is None else iterate(ctx, iterable).rest(ctx), cls=collections.deque)
    made.maxlen = maxlen.constant()
    _respect_maxlen(made)
    return made


# -- dicts -------------------------------------------------------------------------------------------------------


@rule(dict.get, MappingProxyType.get, kinds=(DictValue, None))
def get(ctx: Tracer, mapping: DictValue, key: Value, default: Value = NONE) -> Value:
    found = mapping.get(ctx, key)
    return default if found is None else found


@rule(dict.setdefault, kinds=(DictValue, None))
def set_default(ctx: Tracer, mapping: DictValue, key: Value, default: Value = NONE) -> Value:
    # The default is no call: it has been computed, and is stored where there is nothing.
    found = mapping.get(ctx, key)
    if found is None:
        mapping.put(ctx, key, default)
    return default if found is None else found


@rule(dict.pop, collections.OrderedDict.pop, kinds=(DictValue, None))
def pop_key(ctx: Tracer, mapping: DictValue, key: Value, default: Value | None = None) -> Value:
    # The default is given, not stored: nothing changes where the key is missing.
    found = mapping.remove(ctx, key)
    if found is not None:
        return found
    if default is None:
        ctx.throw(KeyError, key)
    return default


@rule(dict.popitem, collections.OrderedDict.popitem, kinds=(DictValue,))
def pop_item(ctx: Tracer, mapping: DictValue, last: Value | None = None) -> Value:
    is_ordered = derives(mapping.cls, collections.OrderedDict)
    if last is not None and not is_ordered:
        ctx.stop(Kind.CALL, "`popitem` of a dict is asked for the last, or first, item")
    if not mapping.entries:
        throw_as(ctx, (collections.OrderedDict if is_ordered else dict)().popitem)
    # ``popitem(last=False)`` takes the oldest.
    first = last is not None and not last.truth(ctx)
    key, value = mapping.entries[next(iter(mapping.entries)) if first else next(reversed(mapping.entries))]
    # By ``remove``, which notes that an item was taken: others may take from the dict as well.
    mapping.remove(ctx, key)
    return TupleValue([key, value])


@rule(dict.update, collections.OrderedDict.update, kinds=(DictValue,))
def update(ctx: Tracer, mapping: DictValue, other: Value | None = None, /, **named: Value) -> Value:
    # One by one, and not as one change: what came before an exception stays.
    for key, value in () if other is None else pairs_of(ctx, other):
        _put(ctx, mapping, key, value)
    for name, value in named.items():
        _put(ctx, mapping, ConstantValue(name), value)
    return NONE


def _put(ctx: Tracer, mapping: DictValue, key: Value, value: Value) -> None:
    if mapping.whole is not None and mapping.cls is collections.OrderedDict:  # goes through the subclass's method
        ctx.call_builtin(operator.setitem, [mapping.whole, key, value], {})
    else:
        mapping.put(ctx, key, value)


def pairs_of(ctx: Tracer, value: Value) -> Iterable[tuple[Value, Value]]:
    """The entries of a mapping or of an iterable of pairs, one by one: an exception comes after those before it."""
    value = realize(ctx, value)
    if isinstance(value, DictValue):
        return list(value.entries.values())
    if isinstance(value, ContainerObject) and getattr(value.cls, "__iter__", None) is dict.__iter__:
        assert isinstance(value.contents, DictValue)
        return list(value.contents.entries.values())  # CPython, too, looks past the subclass here
    # Whatever has ``keys`` is a mapping to ``dict()``; all else is an iterable of pairs.
    if isinstance(value, UserObject) and hasattr(value.cls, "keys"):
        return _looked_up(ctx, value)
    return _pairs(ctx, iterate(ctx, value))


def _looked_up(ctx: Tracer, mapping: UserObject) -> Iterator[tuple[Value, Value]]:
    """The entries by ``keys`` and ``[]`` of the program's class, one after another, as Python asks for them."""
    keys = iterate(ctx, ctx.call(mapping.attribute(ctx, "keys"), []))
    while (key := keys.step(ctx)) is not None:
        yield key, ctx.call_builtin(operator.getitem, [mapping, key], {})


def _pairs(ctx: Tracer, items: IteratorValue) -> Iterator[tuple[Value, Value]]:
    """The entries of an iterable of pairs, with Python's refusals of what is no pair."""
    position = 0
    while (item := items.step(ctx)) is not None:
        if not has_items(ctx, item):
            ctx.throw(TypeError, f"cannot convert dictionary update sequence element #{position} to a sequence")
        pair = iterate(ctx, item).rest(ctx)
        if len(pair) != 2:
            message = f"dictionary update sequence element #{position} has length {len(pair)}; 2 is required"
            ctx.throw(ValueError, message)
        yield pair[0], pair[1]
        position += 1


@rule(dict.clear, kinds=(DictValue,))
def clear_dict(ctx: Tracer, mapping: DictValue) -> Value:
    moves = mapping.moves
    for key, _ in list(mapping.entries.values()):
        mapping.remove(ctx, key)
    if mapping.cls is collections.OrderedDict:
        mapping.moves = moves  # as it counts
    return NONE


@rule(dict.copy, collections.OrderedDict.copy, kinds=(DictValue,))
def copy_dict(ctx: Tracer, mapping: DictValue) -> Value:
    leave_subclass(ctx, mapping)
    leave_own_walk(ctx, mapping)
    made = DictValue(cls=mapping.cls)
    made.entries = dict(mapping.entries)
    # A copy of a ``defaultdict`` goes on making what is missing.
    made.default_factory = mapping.default_factory
    return made


def _view(which: str) -> Any:
    def view(ctx: Tracer, mapping: DictValue) -> Value:
        return DictView(mapping, which)

    return view


for _which in ("keys", "values", "items"):
    _methods = [getattr(base, _which) for base in (dict, collections.OrderedDict, MappingProxyType)]
    rule(*_methods, kinds=(DictValue,))(_view(_which))


@rule(collections.OrderedDict.move_to_end, kinds=(DictValue, None))
def move_to_end(ctx: Tracer, mapping: DictValue, key: Value, last: Value | None = None) -> Value:
    hashed = key_of(ctx, key)
    if hashed not in mapping.entries:
        ctx.throw(KeyError, key)
    ctx.changed(mapping)
    to_the_end = last is None or last.truth(ctx)
    # Moving the last one to the end changes nothing.
    mapping.moves += hashed != next(reversed(mapping.entries) if to_the_end else iter(mapping.entries))
    entry = mapping.entries.pop(hashed)
    if to_the_end:
        mapping.entries[hashed] = entry
    else:
        mapping.entries = {hashed: entry, **mapping.entries}
    return NONE


@rule(dict.fromkeys, kinds=(None,))
def from_keys(ctx: Tracer, keys: Value, value: Value = NONE) -> Value:
    """One object for all keys, as in Python: who writes to it under one key finds it under the others."""
    made = DictValue()
    for key in iterate(ctx, keys).rest(ctx):
        made.put(ctx, key, value)
    return made


def _make_dict(cls: type) -> Any:
    def make(ctx: World, other: Value | None = None, /, **named: Value) -> Value:
        made = DictValue(cls=cls)
        update(ctx, made, other, **named)
        return made

    return make


rule(dict)(_make_dict(dict))
rule(collections.OrderedDict)(_make_dict(collections.OrderedDict))


@rule(collections.defaultdict)
def make_defaultdict(ctx: World, factory: Value = NONE, other: Value | None = None, /, **named: Value) -> Value:
    if not is_none(factory) and not callable_type(factory):
        throw_as(ctx, collections.defaultdict, 0)
    made = DictValue(cls=collections.defaultdict)
    # Entries given at once do not go through the factory.
    made.default_factory = factory
    update(ctx, made, other, **named)
    return made


# -- named tuples ------------------------------------------------------------------------------------------------


@rule(tuple.__new__, kinds=(None, None))
def new_tuple(ctx: Tracer, cls: Value, iterable: Value) -> Value:
    made = cls.constant()
    require_plain_tuple(ctx, made)
    return TupleValue(iterate(ctx, iterable).rest(ctx), cls=made)


# -- strings -----------------------------------------------------------------------------------------------------


@rule(str.join, kinds=(ConstantValue, None))
def join(ctx: Tracer, separator: ConstantValue, items: Value) -> Value:
    # Each is looked at, and so guarded: the text is a constant of the graph's version.
    if not has_items(ctx, items):
        throw_as(ctx, "".join, None)
    parts = [constant_of(ctx, item) for item in iterate(ctx, items).rest(ctx)]
    try:
        return ConstantValue(separator.value.join(parts))
    except TypeError as error:
        ctx.throw(TypeError, *error.args)


@rule(list.__iter__, tuple.__iter__, dict.__iter__, set.__iter__, kinds=(_CONTAINERS,))
def dunder_iter(ctx: Tracer, items: Value) -> IteratorValue:
    return iterate(ctx, items)


@rule(list.__len__, dict.__len__, tuple.__len__, set.__len__, kinds=(_CONTAINERS,))
def dunder_len(ctx: Tracer, items: Value) -> Value:
    return ctx.call_builtin(len, [items], {})
