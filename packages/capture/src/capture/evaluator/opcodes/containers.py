"""Opcodes that build, extend and take apart containers.

The stack may hold values that nobody has looked at (lazy).  ``pop_unseen`` and ``popn`` move those as they are, so
that building a list relies on nothing about its items; ``pop`` looks, and what it finds is guarded.
"""

from __future__ import annotations

from typing import NoReturn

from capture.bytecode.instructions import Instruction
from capture.evaluator.builtin_rules.containers import append, extend, make_tuple, pairs_of, update
from capture.evaluator.builtin_rules.sets import add as add_to_set
from capture.evaluator.builtin_rules.sets import update_set
from capture.evaluator.frame import Frame
from capture.evaluator.opcodes.registry import opcode
from capture.evaluator.world import World
from capture.reasons import Kind
from capture.values.base import Tracer, Value, is_iterable, realize, type_name
from capture.values.classes import ClassValue
from capture.values.constant import NONE, ConstantValue, boolean
from capture.values.iterating import iterate
from capture.values.mapping import DictValue, key_of
from capture.values.sequence import ListValue, SequenceValue, SetValue, TupleValue


@opcode("BUILD_TUPLE")
def build_tuple(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(TupleValue(frame.popn(inst.arg)))


@opcode("BUILD_LIST")
def build_list(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(ListValue(frame.popn(inst.arg)))


@opcode("BUILD_SET")
def build_set(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(SetValue((key_of(ctx, item), item) for item in frame.popn(inst.arg)))


@opcode("BUILD_MAP")
def build_map(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    # Keys are hashed, so they are looked at; values may stay unseen.
    flat = frame.popn(2 * inst.arg)
    made = DictValue()
    for key, value in zip(flat[::2], flat[1::2], strict=True):
        made.put(ctx, realize(ctx, key), value)
    frame.push(made)


@opcode("BUILD_CONST_KEY_MAP")
def build_const_key_map(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    # Keys are one constant tuple on top, values lie below it in their order.
    keys = frame.pop().elements(ctx)
    made = DictValue()
    for key, value in zip(keys, frame.popn(inst.arg), strict=True):
        made.put(ctx, key, value)
    frame.push(made)


def _at(frame: Frame, depth: int) -> Value:
    """The container that lies ``depth`` places down once the operand is gone."""
    return realize(frame.tracer, frame.stack[-depth])


@opcode("LIST_APPEND")
def list_append(ctx: World, frame: Frame, inst: Instruction) -> None:
    item = frame.pop_unseen()
    target = _at(frame, inst.arg)
    assert isinstance(target, ListValue)
    append(ctx, target, item)


@opcode("LIST_EXTEND")
def list_extend(ctx: World, frame: Frame, inst: Instruction) -> None:
    more = frame.pop()
    # The words of ``f(*x)`` and ``[*x]``, which differ from those of ``list.extend``.
    if not is_iterable(more):
        ctx.throw(TypeError, f"Value after * must be an iterable, not {type_name(more.python_type())}")
    extend(ctx, _at(frame, inst.arg), more)


@opcode("LIST_TO_TUPLE")
def list_to_tuple(ctx: World, frame: Frame, inst: Instruction) -> None:
    frame.push(make_tuple(ctx, frame.pop()))


@opcode("SET_ADD")
def set_add(ctx: World, frame: Frame, inst: Instruction) -> None:
    item = frame.pop()
    add_to_set(ctx, _at(frame, inst.arg), item)


@opcode("SET_UPDATE")
def set_update(ctx: World, frame: Frame, inst: Instruction) -> None:
    more = frame.pop()
    update_set(ctx, _at(frame, inst.arg), more)


@opcode("MAP_ADD")
def map_add(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    # The value lies on top.
    value, key = frame.pop_unseen(), frame.pop()
    target = _at(frame, inst.arg)
    assert isinstance(target, DictValue)
    target.put(ctx, key, value)


@opcode("DICT_UPDATE")
def dict_update(ctx: World, frame: Frame, inst: Instruction) -> None:
    more = frame.pop()
    _require_mapping(ctx, more)
    update(ctx, _at(frame, inst.arg), more)


@opcode("DICT_MERGE")
def dict_merge(ctx: World, frame: Frame, inst: Instruction) -> None:
    more = frame.pop()
    target = _at(frame, inst.arg)
    assert isinstance(target, DictValue)
    _require_mapping(ctx, more)
    # ``f(**a, **b)``: a name that comes twice is an error, and nothing may have been merged by then.
    for key, _ in pairs_of(ctx, more):
        if key_of(ctx, key) in target.entries:
            _leave_type_error(ctx)
    update(ctx, target, more)


def _require_mapping(ctx: Tracer, value: Value) -> None:
    """Breaks the graph unless ``**`` takes it: it takes no pairs, as ``dict()`` does."""
    if not isinstance(value, DictValue) and not hasattr(value.python_type(), "keys"):
        _leave_type_error(ctx)


def _leave_type_error(ctx: Tracer) -> NoReturn:
    """Breaks the graph where a call raises TypeError: CPython's message names the function that is called."""
    ctx.stop(Kind.EXCEPTION, "the program raises TypeError")


@opcode("UNPACK_SEQUENCE")
def unpack_sequence(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    items = _unpacked(ctx, frame.pop(), inst.arg + 1)  # one more than there are targets says that there are too many
    if len(items) != inst.arg:
        few = len(items) < inst.arg
        detail = f"not enough values to unpack (expected {inst.arg}, got {len(items)})"
        ctx.throw(ValueError, detail if few else f"too many values to unpack (expected {inst.arg})")
    # The first item ends up on top, where the first target takes it.
    for item in reversed(items):
        frame.push(item)


@opcode("UNPACK_EX")
def unpack_ex(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    # How many targets stand before and behind the starred one.
    before, after = inst.arg
    items = _unpacked(ctx, frame.pop())
    if len(items) < before + after:
        ctx.throw(ValueError, f"not enough values to unpack (expected at least {before + after}, got {len(items)})")
    end = len(items) - after
    for item in reversed(items[end:]):
        frame.push(item)
    frame.push(ListValue(items[before:end]))
    for item in reversed(items[:before]):
        frame.push(item)


def _unpacked(ctx: Tracer, value: Value, most: int | None = None) -> list[Value]:
    """The items to unpack, no more than so many.  Those of a list or tuple stay unseen."""
    if isinstance(value, SequenceValue):
        return list(value.items)
    if not is_iterable(value):
        ctx.throw(TypeError, f"cannot unpack non-iterable {type_name(value.python_type())} object")
    iterator, items = iterate(ctx, value), list[Value]()
    while len(items) != most and (item := iterator.step(ctx)) is not None:
        items.append(item)
    return items


# -- match statements --------------------------------------------------------------------------------------------


@opcode("GET_LEN")
def get_len(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(ctx.call_builtin(len, [frame.stack[-1]], {}))


# Flags of types (Py_TPFLAGS_SEQUENCE, Py_TPFLAGS_MAPPING) that these patterns ask for.
_SEQUENCE, _MAPPING = 1 << 5, 1 << 6


@opcode("MATCH_SEQUENCE")
def match_sequence(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(boolean(realize(ctx, frame.stack[-1]).python_type().__flags__ & _SEQUENCE != 0))


@opcode("MATCH_MAPPING")
def match_mapping(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(boolean(realize(ctx, frame.stack[-1]).python_type().__flags__ & _MAPPING != 0))


@opcode("MATCH_KEYS")
def match_keys(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    # Neither is popped: both stay below the answer.
    keys, subject = realize(ctx, frame.stack[-1]), realize(ctx, frame.stack[-2])
    if not isinstance(subject, DictValue):
        ctx.stop(Kind.MATCH, f"{subject.describe()} is matched by keys")
    found = [subject.get(ctx, key) for key in keys.elements(ctx)]
    present = [value for value in found if value is not None]
    # All or nothing: a pattern with a key that is missing does not match.
    frame.push(TupleValue(present) if len(present) == len(found) else NONE)


@opcode("MATCH_CLASS")
def match_class(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    names, cls, subject = frame.pop(), frame.pop(), frame.pop()
    if not isinstance(cls, ClassValue):
        ctx.throw(TypeError, "called match pattern must be a class")
    if not ctx.call_builtin(isinstance, [subject, cls], {}).truth(ctx):
        frame.push(NONE)
        return
    found: list[Value] = []
    positional = _positional_names(ctx, cls, inst.arg)
    # ``case int(x)``: the one positional pattern gets the subject itself.
    if inst.arg and not positional:
        found.append(subject)
    for name in [*positional, *names.elements(ctx)]:
        # With a default, so that an attribute that is missing is no error but no match.
        held = ctx.call_builtin(getattr, [subject, name, _ABSENT], {})
        if held is _ABSENT:
            frame.push(NONE)
            return
        found.append(held)
    frame.push(TupleValue(found))


_ABSENT = ConstantValue(NotImplemented)
_MATCHES_ITSELF = 1 << 22  # the flag of classes whose one positional pattern matches the subject itself


def _positional_names(ctx: Tracer, cls: ClassValue, count: int) -> list[Value]:
    """The attributes that positional patterns are matched with; none where the one pattern matches the subject."""
    if count == 0 or (count == 1 and not hasattr(cls.cls, "__match_args__") and cls.cls.__flags__ & _MATCHES_ITSELF):
        return []
    names = getattr(cls.cls, "__match_args__", ())
    distinct = type(names) is tuple and all(type(name) is str for name in names[:count])
    # Too few names, or one twice: CPython raises in its own words.
    if not distinct or len(set(names[:count])) != count:
        ctx.stop(Kind.MATCH, f"{cls.describe()} does not take {count} positional patterns")
    return [ConstantValue(name) for name in names[:count]]
