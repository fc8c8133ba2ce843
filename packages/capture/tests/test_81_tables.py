"""Tables are whole: opcodes have a handler or a reason for none, values all their parts, reasons and guards a kind."""

import inspect
import opcode
import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
import torch

import capture
import capture.values
from capture.bytecode.instructions import SPECIAL_DECODERS
from capture.bytecode.versions import SPELLED, SPELLINGS, SYMBOLS
from capture.entry.kinds_of_values import KINDS
from capture.evaluator import wrap_rules
from capture.evaluator.builtin_rules import registry
from capture.evaluator.builtin_rules.families import FAMILIES
from capture.evaluator.opcodes import HANDLERS
from capture.guards.guard import Guard
from capture.guards.kinds import NEEDS, RELATIONS, GuardKind
from capture.reasons import Kind, Reason
from capture.stored.contents import Contents
from capture.stored.data import DataReader, DataWriter
from capture.values.base import Value
from capture.writing import writer

# -- opcodes ----------------------------------------------------------------------------------------------------------


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
    return spelled or (set() if raw in SPECIAL_DECODERS else {raw})


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


# -- kinds of values --------------------------------------------------------------------------------------------------


OF_EVERY_KIND = {"capture.values.base", "capture.values.effects"}  # what is not looked at yet; where an item was taken
NAMES = [module.name for module in iter_modules(capture.values.__path__, "capture.values.")]
RULES = [handler for rules in registry.RULES.values() for _, handler in rules]
WRITTEN = {
    "values": [kind for name in NAMES for kind in vars(import_module(name)).values() if inspect.isclass(kind)],
    "wraps": list(wrap_rules.RULES.values()),
    "rules": [handler for handler in [*RULES, *FAMILIES] if handler.__module__ != "capture.entry.steering"],
    "builds": [*writer._BUILDERS.values(), *writer._REPLAYS.values()],
}


def modules_of(part):
    return [module.__name__ for parts in KINDS.values() for module in getattr(parts, part)]


@pytest.mark.parametrize("part", WRITTEN)
def test_every_module_that_has_such_a_part_is_in_the_table(part):
    found = [each for each in WRITTEN[part] if part != "values" or issubclass(each, Value)]
    assert {each.__module__ for each in found} - OF_EVERY_KIND == set(modules_of(part))


def test_a_module_of_values_is_of_one_kind():
    assert len(modules_of("values")) == len(set(modules_of("values")))


@pytest.mark.parametrize("kind", KINDS)
def test_what_builds_a_kind_is_in_its_row(kind):
    parts = KINDS[kind]
    classes = [cls for module in parts.values for cls in vars(module).values() if inspect.isclass(cls)]
    own = [
        cls for cls in classes if issubclass(cls, Value) and cls.__module__ in {each.__name__ for each in parts.values}
    ]
    writers = [table[cls] for cls in own for table in (writer._BUILDERS, writer._REPLAYS) if cls in table]
    assert {each.__module__ for each in writers} == {module.__name__ for module in parts.builds}


# -- kinds of reasons -------------------------------------------------------------------------------------------------


SOURCES = Path(capture.__file__).parent


def test_every_kind_is_given_somewhere():
    text = "".join(path.read_text() for path in SOURCES.rglob("*.py"))
    assert [kind for kind in Kind if not re.search(rf"\bKind\.{kind.name}\b", text)] == []


def test_a_kind_is_the_text_that_records_are_counted_by():
    reason = Reason(Kind.TENSOR_VALUE, "a branch")
    assert reason.kind == "tensor value"
    assert (f"{reason.kind}", repr(reason)) == (
        "tensor value",
        "Reason(kind='tensor value', explanation='a branch', hint='')",
    )


def test_a_history_that_was_used_up_is_left_to_cpython():
    w = torch.ones(3, requires_grad=True)

    def twice(x):
        loss = (w * x).exp().sum()
        loss.backward()
        loss.backward()

    capture.reset()
    with pytest.raises(RuntimeError, match="second time"):
        capture.optimize(lambda gm, inputs: gm.forward)(twice)(torch.ones(3))
    left = [record.reason.explanation for record in capture.records() if isinstance(record, capture.FallbackRecord)]
    assert "a history that a backward in the function used up is gone through again" in left


# -- kinds of guards --------------------------------------------------------------------------------------------------


CSRC = Path(__file__).resolve().parents[1] / "csrc"
OF_THE_ENGINE_ALONE = {"keep"}  # which puts a value by for a relation


def kinds_of_the_engine(file):
    (table,) = re.findall(r"\} kinds\[\] = \{\n(.*?)\n\};", (CSRC / file).read_text(), re.DOTALL)
    return set(re.findall(r'^    \{"(\w+)"', table, re.MULTILINE))


def test_every_kind_of_guard_has_a_row_and_is_asked_somewhere():
    text = "".join(path.read_text() for path in SOURCES.rglob("*.py") if path.parent.name not in ("guards", "stored"))
    assert set(NEEDS) == set(GuardKind)
    assert [kind for kind in GuardKind if not re.search(rf"\bGuardKind\.{kind.name}\b", text)] == []


def test_the_engine_has_every_kind_by_its_text_and_no_other():
    texts = {kind.value for kind in GuardKind}
    assert kinds_of_the_engine("checks.c") - OF_THE_ENGINE_ALONE == texts - {kind.value for kind in RELATIONS}
    assert kinds_of_the_engine("relations.c") == {kind.value for kind in RELATIONS}


@pytest.mark.parametrize("kind", GuardKind)
def test_a_stored_guard_has_the_text_of_its_kind(kind):
    payload = {GuardKind.TYPE: (int,), GuardKind.IS: (None,), GuardKind.CONDITION: ((), (), None)}.get(kind, (7,))
    stored = DataWriter(contents := Contents()).guard(Guard(None, kind, payload, None, "a text"))
    assert stored[1] == kind.value
    assert DataReader([int], [], contents, None).guard(stored).kind is kind
