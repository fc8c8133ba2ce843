"""All opcodes: each one of the running Python has a handler, or a reason to have none."""

import opcode

from capture.bytecode.instructions import TREATED_APART
from capture.bytecode.versions import SPELLED, SPELLINGS, SYMBOLS
from capture.evaluator.opcodes import HANDLERS

NOT_IN_FUNCTIONS = {
    "PRINT_EXPR": "what is typed at a prompt",
    "IMPORT_STAR": "modules alone may import all names",
}
NEVER_IN_CODE_OBJECTS = {
    "INTERPRETER_EXIT": "pushed by the interpreter below the first frame of a call from C",
    "EXIT_INIT_CHECK": "run by the interpreter after an `__init__` that it called itself",
    "ENTER_EXECUTOR": "written by the optimizer over a jump, and read as that jump",
    "RESERVED": "not used",
}
PREFIXES = {
    "CACHE": "room for the interpreter's notes behind an opcode",
    "EXTENDED_ARG": "a part of the argument of the opcode behind it",
}
LEFT_TO_CPYTHON = {
    "CALL_INTRINSIC_2": "type parameters with bounds or defaults, and functions that have some, are objects made in C",
}
REASONS = {**NOT_IN_FUNCTIONS, **NEVER_IN_CODE_OBJECTS, **PREFIXES, **LEFT_TO_CPYTHON}
INTRINSICS_LEFT_TO_CPYTHON = {
    "1_INVALID": "not used",
    "2_INVALID": "not used",
    "PRINT": "what is typed at a prompt",
    "IMPORT_STAR": "modules alone may import all names",
    "TYPEVAR": "a type parameter is an object made in C, with an identity of its own",
    "PARAMSPEC": "a type parameter is an object made in C, with an identity of its own",
    "TYPEVARTUPLE": "a type parameter is an object made in C, with an identity of its own",
    "SUBSCRIPT_GENERIC": "the base class of a class with type parameters",
    "TYPEALIAS": "a type alias is an object made in C, with an identity of its own",
    "TYPEVAR_WITH_BOUND": "a type parameter is an object made in C, with an identity of its own",
    "TYPEVAR_WITH_CONSTRAINTS": "a type parameter is an object made in C, with an identity of its own",
    "SET_FUNCTION_TYPE_PARAMS": "a function with type parameters",
    "SET_TYPEPARAM_DEFAULT": "a type parameter is an object made in C, with an identity of its own",
}
EVALUATED_INTRINSICS = {"STOPITERATION_ERROR", "ASYNC_GEN_WRAP", "UNARY_POSITIVE", "LIST_TO_TUPLE", "PREP_RERAISE_STAR"}


def opcodes_of_code():
    """The raw opcodes that a compiler may write: not what the interpreter specializes them to."""
    return [name for name, number in opcode.opmap.items() if number < 256 and not name.startswith("INSTRUMENTED_")]


def neutral(raw):
    """The neutral opcodes that stand for a raw one; those that are taken apart one by one stand for handled ones."""
    spelled = {part for spelling in SPELLINGS if spelling.raw == raw for part in spelling.parts}
    return spelled or (set() if raw in TREATED_APART else {raw})


def test_each_opcode_has_a_handler_or_a_reason():
    missing = {raw for raw in opcodes_of_code() if not neutral(raw) <= HANDLERS.keys()}
    assert missing - REASONS.keys() == set()
    assert not [raw for raw in SPELLED if raw not in opcode.opmap]


def test_no_reason_is_out_of_date():
    stale = [name for name in REASONS if name in opcode.opmap and neutral(name) <= HANDLERS.keys()]
    assert stale == []


def test_each_intrinsic_is_evaluated_or_has_a_reason():
    known = EVALUATED_INTRINSICS | INTRINSICS_LEFT_TO_CPYTHON.keys()
    assert {name for op in ("CALL_INTRINSIC_1", "CALL_INTRINSIC_2") for name in SYMBOLS[op]} <= known
