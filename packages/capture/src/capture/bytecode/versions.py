"""Every difference between the bytecodes of CPython 3.11, 3.12 and 3.13, written down once.

The rest of the package speaks one *neutral* bytecode, the same for all three interpreters: ``LOAD_METHOD`` is an opcode
on every version, a comparison never converts to bool on the side, a jump has no direction.  A raw opcode of the running
interpreter is a *spelling* of one or more neutral opcodes, and the tables below list the spellings that are not the
identity.  Decoding reads the table from left to right, assembling from right to left, so the two cannot disagree.

This module knows opcode numbers and integer arguments.  It knows nothing of code objects.
"""

import opcode
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

PY312 = sys.version_info >= (3, 12)
PY313 = sys.version_info >= (3, 13)

# In a call, 3.11 and 3.12 keep the NULL under the callable, 3.13 above it.
NULL_UNDER_CALLABLE = not PY313

# What the error of an assignment adds where the object has no room for new attributes.
NO_DICT = " and no __dict__ for setting new attributes" if PY313 else ""

OPCODES: dict[str, int] = opcode.opmap
EXTENDED_ARG = OPCODES["EXTENDED_ARG"]


def _cache_entries() -> list[int]:
    """The number of inline cache entries (2 bytes each) behind an opcode, by opcode number."""
    # A list by number up to 3.12, a dict by name from 3.13 on, in which opcodes without a cache are missing.
    entries = opcode._inline_cache_entries  # type: ignore[attr-defined]
    if isinstance(entries, dict):
        return [entries.get(name, 0) for name in opcode.opname[:256]]
    return list(entries)


CACHES: list[int] = _cache_entries()


# ---------------------------------------------------------------------------------------------------------- operands


class Operand(Enum):
    """The meanings that the operand of a neutral opcode can have."""

    NONE = auto()  # no operand
    COUNT = auto()  # a number or a set of flags, kept as an int
    CONST = auto()  # the constant itself
    NAME = auto()  # an attribute, global or module name
    SLOT = auto()  # a local, cell or free variable, by name
    JUMP = auto()  # the instruction jumped to
    SYMBOL = auto()  # an operator, by its symbol: see SYMBOLS
    PAIR = auto()  # UNPACK_EX: (targets before the star, targets after it)


_OPERANDS = {
    Operand.CONST: "LOAD_CONST",
    Operand.NAME: """LOAD_NAME STORE_NAME DELETE_NAME LOAD_ATTR LOAD_METHOD STORE_ATTR DELETE_ATTR LOAD_GLOBAL
        STORE_GLOBAL DELETE_GLOBAL IMPORT_NAME IMPORT_FROM LOAD_FROM_DICT_OR_GLOBALS LOAD_SUPER_ATTR LOAD_SUPER_METHOD
        LOAD_ZERO_SUPER_ATTR LOAD_ZERO_SUPER_METHOD""",
    Operand.SLOT: """LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_AND_CLEAR STORE_FAST DELETE_FAST MAKE_CELL LOAD_CLOSURE
        LOAD_DEREF STORE_DEREF DELETE_DEREF LOAD_CLASSDEREF LOAD_FROM_DICT_OR_DEREF""",
    Operand.JUMP: """JUMP JUMP_NO_INTERRUPT POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE
        FOR_ITER SEND""",
    Operand.SYMBOL: "COMPARE_OP BINARY_OP IS_OP CONTAINS_OP CALL_INTRINSIC_1 CALL_INTRINSIC_2",
    Operand.PAIR: "UNPACK_EX",
    Operand.COUNT: """BUILD_TUPLE BUILD_LIST BUILD_SET BUILD_MAP BUILD_CONST_KEY_MAP BUILD_SLICE BUILD_STRING CALL
        CALL_FUNCTION_EX CONVERT_VALUE COPY DICT_MERGE DICT_UPDATE FORMAT_VALUE GET_AWAITABLE LIST_APPEND LIST_EXTEND
        MAKE_FUNCTION MAP_ADD MATCH_CLASS RAISE_VARARGS RERAISE RESUME SET_ADD SET_UPDATE SWAP UNPACK_SEQUENCE
        YIELD_VALUE""",
}
OPERANDS: dict[str, Operand] = {op: kind for kind, ops in _OPERANDS.items() for op in ops.split()}


def operand_of(op: str) -> Operand:
    return OPERANDS.get(op, Operand.NONE)


def _intrinsics(table: str) -> tuple[str, ...]:
    return tuple(name.removeprefix("INTRINSIC_") for name in getattr(opcode, table, ()))


SYMBOLS: dict[str, tuple[str, ...]] = {
    "COMPARE_OP": tuple(opcode.cmp_op),
    "BINARY_OP": tuple(symbol for _, symbol in opcode._nb_ops),  # type: ignore[attr-defined]
    "IS_OP": ("is", "is not"),
    "CONTAINS_OP": ("in", "not in"),
    "CALL_INTRINSIC_1": _intrinsics("_intrinsic_1_descs"),
    "CALL_INTRINSIC_2": _intrinsics("_intrinsic_2_descs"),
}


# --------------------------------------------------------------------------------------------------------- spellings


@dataclass(frozen=True, slots=True)
class Spelling:
    """A raw opcode that stands for the neutral opcodes `parts`, in that order.

    `split` gives the integer argument of each part, or None where this raw argument is spelled by another row.
    `join` is its inverse: the raw argument, or None where these parts cannot be said by this opcode.  The argument of a
    jump passes through both untouched.
    """

    raw: str
    parts: tuple[str, ...]
    split: Callable[[int], tuple[int, ...] | None]
    join: Callable[..., int | None]


def _renamed(raw: str, neutral: str) -> Spelling:
    return Spelling(raw, (neutral,), lambda arg: (arg,), lambda arg: arg)


def _fixed(raw: str, arg: int, *parts: tuple[str, int]) -> Spelling:
    """Raw opcode with exactly this argument <-> neutral opcodes with exactly these."""
    ops, args = tuple(op for op, _ in parts), tuple(value for _, value in parts)
    return Spelling(raw, ops, lambda a: args if a == arg else None, lambda *a: arg if a == args else None)


def _low_bits(raw: str, flags: int, width: int, *parts: str, name: int = 0) -> Spelling:
    """The raw argument is an index shifted left by `width`, over constant flags; part number `name` has the index."""

    def split(arg: int) -> tuple[int, ...] | None:
        if arg & ((1 << width) - 1) != flags:
            return None
        return tuple(arg >> width if i == name else 0 for i in range(len(parts)))

    return Spelling(raw, parts, split, lambda *args: args[name] << width | flags)


def _pair(raw: str, first: str, second: str) -> Spelling:
    """3.13's superinstructions: two variables among the first sixteen."""
    return Spelling(
        raw, (first, second), lambda arg: (arg >> 4, arg & 15), lambda a, b: a << 4 | b if max(a, b) < 16 else None
    )


# The low bits of a comparison tell the specialised forms which outcomes count: unordered 1, less 2, greater 4, equal 8.
_OUTCOMES = (2, 2 | 8, 8, 1 | 2 | 4, 4, 4 | 8)  # <  <=  ==  !=  >  >=


def _comparison(shift: int, flag: int, *parts: str) -> Spelling:
    """A comparison: its index above `shift`, `flag` where 3.13 is to give a bool, the outcomes that count below."""
    raw_args = [index << shift | flag | outcomes for index, outcomes in enumerate(_OUTCOMES)]
    rest = (0,) * (len(parts) - 1)

    def split(arg: int) -> tuple[int, ...] | None:
        return (arg >> shift, *rest) if arg & ((1 << shift) - 1) & ~15 == flag else None

    return Spelling("COMPARE_OP", parts, split, lambda index, *_: raw_args[index])


def _jump_or_pop(raw: str, jump: str) -> Spelling:
    return Spelling(raw, ("COPY", jump, "POP_TOP"), lambda arg: (1, arg, 0), lambda n, arg, _: arg if n == 1 else None)


# The assembler chooses the raw jump by itself, once it knows the direction: these rows serve decoding.
_JUMPS = [
    _renamed("JUMP_FORWARD", "JUMP"),
    _renamed("JUMP_BACKWARD", "JUMP"),
    _renamed("JUMP_BACKWARD_NO_INTERRUPT", "JUMP_NO_INTERRUPT"),
]

_SPELLINGS_311 = [
    *_JUMPS,
    *[
        _renamed(f"POP_JUMP_{direction}_IF_{test}", f"POP_JUMP_IF_{test}")
        for direction in ("FORWARD", "BACKWARD")
        for test in ("TRUE", "FALSE", "NONE", "NOT_NONE")
    ],
    _jump_or_pop("JUMP_IF_TRUE_OR_POP", "POP_JUMP_IF_TRUE"),
    _jump_or_pop("JUMP_IF_FALSE_OR_POP", "POP_JUMP_IF_FALSE"),
    _low_bits("LOAD_GLOBAL", 1, 1, "PUSH_NULL", "LOAD_GLOBAL", name=1),
    _low_bits("LOAD_GLOBAL", 0, 1, "LOAD_GLOBAL"),
]

# What 3.12 and 3.13 share.
_SPELLINGS_LATER = [
    *_JUMPS,
    Spelling("RETURN_CONST", ("LOAD_CONST", "RETURN_VALUE"), lambda arg: (arg, 0), lambda index, _: index),
    _fixed("BINARY_SLICE", 0, ("BUILD_SLICE", 2), ("BINARY_SUBSCR", 0)),
    _fixed("STORE_SLICE", 0, ("BUILD_SLICE", 2), ("STORE_SUBSCR", 0)),
    _low_bits("LOAD_ATTR", 1, 1, "LOAD_METHOD"),
    _low_bits("LOAD_ATTR", 0, 1, "LOAD_ATTR"),
    _low_bits("LOAD_SUPER_ATTR", 0, 2, "LOAD_ZERO_SUPER_ATTR"),
    _low_bits("LOAD_SUPER_ATTR", 1, 2, "LOAD_ZERO_SUPER_METHOD"),
    _low_bits("LOAD_SUPER_ATTR", 2, 2, "LOAD_SUPER_ATTR"),
    _low_bits("LOAD_SUPER_ATTR", 3, 2, "LOAD_SUPER_METHOD"),
    _fixed("CALL_INTRINSIC_1", 4, ("ASYNC_GEN_WRAP", 0)),
    _fixed("CALL_INTRINSIC_1", 5, ("UNARY_POSITIVE", 0)),
    _fixed("CALL_INTRINSIC_1", 6, ("LIST_TO_TUPLE", 0)),
    _renamed("CALL_INTRINSIC_1", "CALL_INTRINSIC_1"),
    _fixed("CALL_INTRINSIC_2", 1, ("PREP_RERAISE_STAR", 0)),
    _renamed("CALL_INTRINSIC_2", "CALL_INTRINSIC_2"),
]

_SPELLINGS_312 = [
    *_SPELLINGS_LATER,
    _low_bits("LOAD_GLOBAL", 1, 1, "PUSH_NULL", "LOAD_GLOBAL", name=1),
    _low_bits("LOAD_GLOBAL", 0, 1, "LOAD_GLOBAL"),
    _comparison(4, 0, "COMPARE_OP"),
]

_SPELLINGS_313 = [
    *_SPELLINGS_LATER,
    _low_bits("LOAD_GLOBAL", 1, 1, "LOAD_GLOBAL", "PUSH_NULL"),
    _low_bits("LOAD_GLOBAL", 0, 1, "LOAD_GLOBAL"),
    _comparison(5, 16, "COMPARE_OP", "TO_BOOL"),
    _comparison(5, 0, "COMPARE_OP"),
    _pair("LOAD_FAST_LOAD_FAST", "LOAD_FAST", "LOAD_FAST"),
    _pair("STORE_FAST_LOAD_FAST", "STORE_FAST", "LOAD_FAST"),
    _pair("STORE_FAST_STORE_FAST", "STORE_FAST", "STORE_FAST"),
    _fixed("FORMAT_SIMPLE", 0, ("FORMAT_VALUE", 0)),
    _fixed("FORMAT_WITH_SPEC", 0, ("FORMAT_VALUE", 4)),
]

SPELLINGS: list[Spelling] = _SPELLINGS_313 if PY313 else _SPELLINGS_312 if PY312 else _SPELLINGS_311


def split_raw(raw: str, arg: int) -> list[tuple[str, int]]:
    """The neutral opcodes, with integer arguments, that a raw opcode with this argument stands for."""
    for spelling in SPELLINGS:
        if spelling.raw == raw:
            args = spelling.split(arg)
            if args is not None:
                return list(zip(spelling.parts, args, strict=True))
    return [(raw, arg)]


SPELLED: frozenset[str] = frozenset(spelling.raw for spelling in SPELLINGS)
