"""Opcodes that read and write variables, globals, cells and attributes.

What is stored is moved unseen.  Whatever a store replaces may have been the last reference to an object that does
something when it ends (a ``__del__``, a generator under way): ``require_quiet_end`` lets CPython do such a store.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
from typing import NoReturn

from capture.bytecode.instructions import Instruction
from capture.bytecode.versions import NULL_UNDER_CALLABLE
from capture.evaluator.frame import NULL, Frame
from capture.evaluator.opcodes.registry import opcode
from capture.evaluator.world import World
from capture.evaluator.wrap import global_source
from capture.guards.kinds import GuardKind
from capture.guards.sources import AttrSource, ConstSource, KeySource
from capture.reasons import Kind
from capture.values.base import Tracer, Value, realize, trusted
from capture.values.classes import ClassValue, PythonModuleValue, SuperValue
from capture.values.constant import UNBOUND, ConstantValue
from capture.values.finalizers import require_quiet_attribute, require_quiet_end
from capture.values.function import BuiltinValue, CellValue, NamespaceValue
from capture.values.partial import PartialValue


@opcode("LOAD_CONST")
def load_const(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(ctx.literal(inst.arg))


@opcode("LOAD_FAST", "LOAD_FAST_CHECK")
def load_fast(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    # A slot may be there and unbound: after ``del``, or before its first assignment.
    value = frame.load(inst.arg)
    if value is None:
        ctx.throw(
            UnboundLocalError, f"cannot access local variable '{inst.arg}' where it is not associated with a value"
        )
    frame.push(value)


@opcode("STORE_FAST")
def store_fast(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    value, replaced = frame.pop_unseen(), frame.slots.get(inst.arg)
    if replaced is not None and replaced is not value:
        require_quiet_end(ctx, replaced)
    frame.slots[inst.arg] = UNBOUND if value is NULL else value  # a comprehension puts back what was not bound


@opcode("DELETE_FAST")
def delete_fast(ctx: World, frame: Frame, inst: Instruction) -> None:
    # For its error where nothing is bound, and the value that is let go.
    load_fast(ctx, frame, inst)
    value = frame.pop_unseen()
    if not inst.arg.startswith("."):  # a continuation moves what it is handed to the stack
        require_quiet_end(ctx, value)
    frame.slots[inst.arg] = UNBOUND


@opcode("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    # A comprehension that is inlined (3.12) saves the outer variable on the stack, if there is one, and puts it back.
    value = frame.load(inst.arg)
    frame.push(NULL if value is None else value)
    frame.slots[inst.arg] = UNBOUND


# -- cells -------------------------------------------------------------------------------------------------------


@opcode("MAKE_CELL")
def make_cell(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.slots[inst.arg] = CellValue(frame.slots.get(inst.arg, UNBOUND))


@opcode("LOAD_CLOSURE")
def load_closure(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(frame.slots[inst.arg])


@opcode("LOAD_DEREF")
def load_deref(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(bound_cell(ctx, frame, inst.arg).content)


def bound_cell(ctx: Tracer, frame: Frame, name: str) -> CellValue:
    cell = frame.cell(name)
    if cell.content is UNBOUND:
        # The words tell a variable of an enclosing function from one of this function that inner ones use.
        if name in frame.code.co_freevars:
            error, kind, where = NameError, "free", " in enclosing scope"
        else:
            error, kind, where = UnboundLocalError, "local", ""
        ctx.throw(error, f"cannot access {kind} variable '{name}' where it is not associated with a value{where}")
    return cell


@opcode("STORE_DEREF")
def store_deref(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    cell, value = frame.cell(inst.arg), frame.pop_unseen()
    if cell.content is not value:
        require_quiet_end(ctx, cell.content)
    ctx.changed(cell)
    # A real cell is written when the frame leaves, as an effect.
    cell.content = value


@opcode("DELETE_DEREF")
def delete_deref(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    cell = bound_cell(ctx, frame, inst.arg)
    require_quiet_end(ctx, cell.content)
    ctx.changed(cell)
    cell.content = UNBOUND


# -- globals -----------------------------------------------------------------------------------------------------


@opcode("LOAD_GLOBAL")
def load_global(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(read_global(ctx, frame.function.namespace, inst.arg))


def read_global(ctx: Tracer, namespace: NamespaceValue, name: str) -> Value:
    """A global of a module, or the builtin by that name."""
    # First what the evaluated code wrote; None there means deleted, and lets the builtin be seen again.
    if name in namespace.written:
        written = namespace.written[name]
        if written is not None:
            return realize(ctx, written)
    elif name in namespace.contents:
        found = namespace.contents[name]
        # In torch's and the standard library's modules names of their own kind are taken as fixed: no guard.
        if namespace.trusted and trusted(found):
            return ctx.literal(found)
        return ctx.wrap(found, global_source(namespace, name))
    # Code run by ``exec`` may have builtins of its own.
    held = namespace.contents.get("__builtins__", builtins)
    if held is not builtins and held is not vars(builtins):
        ctx.stop(Kind.BUILTINS, f"the builtins of `{namespace.contents.get('__name__')}` are its own")
    if name not in vars(builtins):
        _no_such_global(ctx, namespace, name)
    return ctx.wrap(vars(builtins)[name], builtin_source(ctx, namespace, name))


def _no_such_global(ctx: Tracer, namespace: NamespaceValue, name: str) -> NoReturn:
    if name not in namespace.written:
        ctx.guard(global_source(namespace, name), GuardKind.ABSENT)
    ctx.throw(NameError, f"name '{name}' is not defined")


def builtin_source(ctx: Tracer, namespace: NamespaceValue, name: str) -> AttrSource:
    """The path of a builtin, which it is as long as no global hides it."""
    # A guard on something that is not there: a global of that name would come before the builtin.
    if not namespace.trusted and name not in namespace.written:
        source = global_source(namespace, name)
        if namespace.source is None:
            ctx.guard(source, GuardKind.IS, vars(builtins)[name])
        else:
            ctx.guard(source, GuardKind.ABSENT)
    return AttrSource(ConstSource(builtins, "builtins"), name)


@opcode("STORE_GLOBAL")
def store_global(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    namespace = frame.function.namespace
    ctx.changed(namespace)
    namespace.written[inst.arg] = frame.pop_unseen()


@opcode("DELETE_GLOBAL")
def delete_global(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    namespace, name = frame.function.namespace, inst.arg
    # Looked at before it is deleted, so that its being there is relied on.
    if namespace.written.get(name) is None:
        if name in namespace.written or name not in namespace.contents:
            _no_such_global(ctx, namespace, name)
        read_global(ctx, namespace, name)
    ctx.changed(namespace)
    namespace.written[name] = None


@opcode("IMPORT_NAME")
def import_name(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    names, level = frame.pop(), frame.pop()
    package = frame.function.namespace.contents.get("__package__") or ""
    depth = level.constant()
    # ``from . import x`` has a depth of 1; the name is completed by the package.
    full = importlib.util.resolve_name("." * depth + inst.arg, package) if depth else inst.arg
    if full not in sys.modules:
        ctx.stop(
            Kind.IMPORT,
            f"the module `{full}` is imported for the first time",
            "import it before the compiled function runs",
        )
    # ``import a.b`` binds ``a``; ``from a.b import c`` needs ``a.b``.
    name = full if names.truth(ctx) or depth else full.partition(".")[0]
    chosen = sys.modules[name]
    if not ctx.in_library():
        # Somebody may put another module there, or take it out.
        for each in {full, name}:
            ctx.guard(KeySource(ConstSource(sys.modules, "sys.modules"), each), GuardKind.IS, sys.modules[each])
    # A submodule that nobody has loaded is imported by ``from``, which runs code.
    wanted = names.constant() or ()
    if hasattr(chosen, "__path__") and not all(hasattr(chosen, name) for name in wanted):
        ctx.stop(Kind.IMPORT, f"a part of the package `{full}` is imported for the first time")
    frame.push(ctx.literal(chosen))


@opcode("IMPORT_FROM")
def import_from(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    module = realize(ctx, frame.stack[-1])
    if not isinstance(module, PythonModuleValue):
        ctx.stop(Kind.IMPORT, f"`{inst.arg}` is imported from {module.describe()}")
    bound = PartialValue(BuiltinValue(getattr, receiver=module), [ConstantValue(inst.arg)], {})
    found = ctx.attempt(bound, AttributeError)
    if found is None:  # perhaps a module by that name; and what the error says differs between versions
        ctx.stop(Kind.IMPORT, f"{module.describe()} has no `{inst.arg}`")
    frame.push(found)


# -- attributes --------------------------------------------------------------------------------------------------


@opcode("LOAD_ATTR")
def load_attr(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(frame.pop().attribute(ctx, inst.arg))


@opcode("LOAD_METHOD")
def load_method(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    _push_callable(frame, frame.pop().attribute(ctx, inst.arg))


def _push_callable(frame: Frame, function: Value) -> None:
    """Pushes two slots for a call, in the order in which this interpreter wants them if it has to make the call."""
    for value in (NULL, function) if NULL_UNDER_CALLABLE else (function, NULL):
        frame.push(value)


@opcode("STORE_ATTR")
def store_attr(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    owner = frame.pop()
    require_quiet_attribute(ctx, owner, inst.arg)
    owner.set_attribute(ctx, inst.arg, frame.pop_unseen())


@opcode("DELETE_ATTR")
def delete_attr(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    owner = frame.pop()
    require_quiet_attribute(ctx, owner, inst.arg)
    owner.set_attribute(ctx, inst.arg, None)


def _super_attribute(ctx: Tracer, frame: Frame, inst: Instruction) -> Value:
    # From 3.12 on ``super().x`` is one instruction over three values: the object, the class, and whatever ``super`` is.
    receiver, cls, made = frame.pop(), frame.pop(), frame.pop()
    if isinstance(made, ClassValue) and made.cls is super and isinstance(cls, ClassValue):
        return SuperValue(cls.cls, receiver).attribute(ctx, inst.arg)
    # Something else by that name is called with what the program wrote between the parentheses.
    written = [] if inst.op.startswith("LOAD_ZERO") else [cls, receiver]
    return realize(ctx, ctx.call(made, written)).attribute(ctx, inst.arg)


@opcode("LOAD_SUPER_ATTR", "LOAD_ZERO_SUPER_ATTR")
def load_super_attr(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(_super_attribute(ctx, frame, inst))


@opcode("LOAD_SUPER_METHOD", "LOAD_ZERO_SUPER_METHOD")
def load_super_method(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    _push_callable(frame, _super_attribute(ctx, frame, inst))
