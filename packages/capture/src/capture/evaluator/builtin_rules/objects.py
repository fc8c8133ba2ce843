"""Builtins that ask or change objects: types, attributes, instances, conversion to numbers and strings.

The answers of ``isinstance`` and its kin hang on classes, which guards keep as they are (``values/class_guards``);
where code of the program answers (metaclasses, hooks, properties) it is evaluated, or the graph ends.
"""

from __future__ import annotations

import enum
import re
import weakref
from abc import ABCMeta
from collections.abc import Mapping, Sequence
from types import FunctionType, MethodDescriptorType, UnionType
from typing import Any

import torch

from capture.evaluator.builtin_rules.notices import warn_as_torch_does
from capture.evaluator.builtin_rules.registry import constant_of, fold, pure, rule
from capture.evaluator.world import World
from capture.guards.kinds import GuardKind
from capture.guards.sources import ConstSource, MadeSource, SubclassSource
from capture.reasons import Kind
from capture.signals import let_through
from capture.values.base import (
    Tracer,
    Value,
    bind_member,
    held_by,
    module_name,
    realize,
    root_package,
    trusted,
    type_name,
)
from capture.values.classes import ClassValue
from capture.values.constant import NONE, TRUE, ConstantValue, boolean, plain_text
from capture.values.descriptors import bind, special
from capture.values.function import BuiltinValue, FunctionValue
from capture.values.module import TORCHS, ModuleValue
from capture.values.partial import PartialValue
from capture.values.slots import binds_by_code, has_code_for
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue
from capture.values.user_object import UserObject, is_missing, lookup

pure(issubclass, torch.finfo, torch.iinfo, torch.device)

# -- questions ---------------------------------------------------------------------------------------------------


@rule(type, kinds=(None,))
def type_of(ctx: Tracer, value: Value, *rest: Value) -> Value:
    if rest:
        ctx.stop(Kind.CLASS, "a class is made by `type(...)` in the captured code", "define it outside")
    return ctx.literal(value.python_type())


@rule(isinstance, kinds=(None, None))
def is_instance(ctx: World, value: Value, classes: Value) -> Value:
    candidates = constant_of(ctx, classes)
    # In order, up to the first that says yes: a later one may run code.
    if isinstance(candidates, tuple):
        return boolean(any(is_instance(ctx, value, ctx.literal(each)).truth(ctx) for each in candidates))
    if not _is_like_a_class(candidates):
        ctx.stop(Kind.CLASS, f"an object is asked whether it is an instance of {classes.describe()}")
    # As CPython: an exact match asks no metaclass.
    if value.python_type() is candidates:
        return TRUE
    if (check := _code_that_answers(ctx, classes, "__instancecheck__")) is not None:
        return to_bool(ctx, realize(ctx, ctx.call(check, [value])))
    if isinstance(value, TensorValue):
        # ``isinstance(t, torch.FloatTensor)`` and ``Parameter`` are answered by metaclasses of torch's that look at the
        # tensor.
        return boolean(isinstance(_empty_tensor(value), candidates) or _is_flagged(ctx, value, candidates))
    if held_by(candidates, "_is_protocol", False):
        return _is_like_a_protocol(ctx, value, candidates)
    # A property of that name may lie, and ``isinstance`` believes it.
    if isinstance(value, UserObject) and lookup(value.cls, "__class__")[0] is not object:
        ctx.stop(Kind.CLASS, f"{value.describe()} says by code of its own which class it is of")
    if isinstance(value, UserObject) and value.obj is not None:
        return _ask(ctx, isinstance, value.obj, candidates)
    return _ask(ctx, issubclass, value.python_type(), candidates)


def _ask(ctx: World, question: Any, obj: object, candidate: Any) -> Value:
    """The answer of ``isinstance`` or ``issubclass`` itself, where no code of the program has a say in it."""
    owner, _ = lookup(candidate, "__subclasshook__") if isinstance(candidate, type) else (object, None)
    if not trusted(owner):
        ctx.stop(Kind.CLASS, f"the class `{owner.__qualname__}` has code that says what is a subclass")
    try:
        answer: bool = question(obj, candidate)
        _rely_on_registrations(ctx, obj if isinstance(obj, type) else type(obj), candidate, answer)
        return boolean(answer)
    except Exception as error:  # noqa: BLE001 - whatever classes may raise: CPython asks them again, and raises it
        let_through(error)
        ctx.stop(Kind.CLASS, f"`{candidate}` is no class to ask about: {type(error).__name__}")


def _rely_on_registrations(ctx: World, cls: type, candidate: object, answer: bool) -> None:
    """Relies on the answer where programs may register a class as another one's: each call asks again."""
    if isinstance(candidate, ABCMeta) and not (trusted(cls) and trusted(candidate)):
        if issubclass(cls, candidate) is not answer:
            ctx.stop(Kind.CLASS, f"an object of `{cls.__qualname__}` says that it is of another class")
        ctx.guard(SubclassSource(cls, candidate), GuardKind.EQUALS, answer)


def _is_like_a_protocol(ctx: Tracer, value: Value, protocol: Any) -> Value:
    """True if the class has the protocol's members; breaks the graph where the object's own attributes decide."""
    try:
        if issubclass(value.python_type(), protocol):
            return TRUE
    except TypeError:  # the protocol has data members, or is not checked at runtime at all
        pass
    return ctx.stop(Kind.CLASS, f"the attributes of {value.describe()} say whether it is a {protocol.__qualname__}")


@rule(issubclass, kinds=(ClassValue, ClassValue))
def is_subclass(ctx: World, cls: ClassValue, candidate: ClassValue) -> Value:
    check = _code_that_answers(ctx, candidate, "__subclasscheck__")
    if check is None:
        return _ask(ctx, issubclass, cls.cls, candidate.cls)
    return to_bool(ctx, realize(ctx, ctx.call(check, [cls])))


def _is_like_a_class(candidate: object) -> bool:
    """True if ``isinstance`` takes it in the place of a class."""
    return isinstance(candidate, (type, UnionType)) or not is_missing(lookup(type(candidate), "__instancecheck__")[1])


def _code_that_answers(ctx: Tracer, candidate: Value, name: str) -> Value | None:
    """The method by which a program says what is an instance or a subclass; those of these modules only look."""
    owner, check = lookup(candidate.python_type(), name)
    if is_missing(check) or isinstance(check, MethodDescriptorType):
        return None
    said_by = root_package(check if isinstance(check, FunctionType) else owner)
    return None if said_by in ("abc", "typing", "typing_extensions", "torch") else special(ctx, candidate, name)


def _empty_tensor(value: TensorValue) -> Any:
    """A tensor of the same class and dtype: torch's metaclasses look at more than the class."""
    if value.cls is torch.nn.Parameter:
        return torch.nn.Parameter(torch.empty(0), requires_grad=False)
    return torch.empty(0, dtype=value.fake.dtype)


_FLAGS = {torch.nn.Parameter: "_is_param", torch.nn.Buffer: "_is_buffer"}


def _is_flagged(ctx: Tracer, value: TensorValue, candidate: object) -> bool:
    """True for a tensor that is marked as a parameter or buffer by an attribute of its own."""
    flag = _FLAGS.get(candidate)
    if flag is None or (flag not in value.written and not hasattr(value.obj, flag)):
        return False
    return value.attribute(ctx, flag).truth(ctx)


@rule(callable, kinds=(None,))
def is_callable(ctx: Tracer, value: Value) -> Value:
    """``callable``, which in C asks the type alone.  A class as such has a ``__call__``, that of its metaclass."""
    return boolean(not is_missing(lookup(value.python_type(), "__call__")[1]))


@rule(id, kinds=(None,))
def identity(ctx: Tracer, value: Value) -> Value:
    # The number is a constant of the graph's version, good as long as the very object is there.
    if isinstance(value, UserObject) and value.obj is not None and value.source is not None:
        ctx.guard(value.source, GuardKind.IS, value.obj)
        ctx.varies("it asks for an address, which is another one in each process")
        return ConstantValue(id(value.obj))
    # Relied on by identity already.
    if isinstance(value, (FunctionValue, ClassValue)) and value.identity() is not value:
        ctx.varies("it asks for an address, which is another one in each process")
        return ConstantValue(id(value.identity()))
    return ctx.stop(Kind.IDENTITY, "`id()` of an object is read", "compare objects with `is`")


def _as_name(ctx: Tracer, name: ConstantValue) -> str:
    """The name of an attribute that is written, or looked for by code: that keeps, or is given, the very object."""
    if not isinstance(name.value, str):
        ctx.throw(TypeError, f"attribute name must be string, not '{type_name(type(name.value))}'")
    if type(name.value) is not str:
        ctx.stop(Kind.ATTRIBUTE, f"an attribute is named by a `{type(name.value).__name__}`", "name it by a `str`")
    return name.value


def _as_name_to_read(ctx: Tracer, owner: Value, name: ConstantValue) -> str:
    """The name of an attribute that is read: a member of a text enum will do where nobody is told of the name."""
    if isinstance(name.value, str) and type(name.value) is not str and not _tells_names(owner.python_type()):
        return plain_text(ctx, name.value)
    return _as_name(ctx, name)


def _tells_names(cls: type) -> bool:
    """True if reading an attribute runs code, which is given its name; that of torch's modules is known."""
    own = held_by(cls, "__getattr__", TORCHS["__getattr__"]) is not TORCHS["__getattr__"]
    return own or has_code_for(cls, "__getattribute__")


@rule(getattr, kinds=(None, ConstantValue))
def get_attribute(ctx: Tracer, value: Value, name: ConstantValue, default: Value | None = None) -> Value:
    text = _as_name_to_read(ctx, value, name)
    # Without a default an AttributeError passes to the program as it is.
    if default is None and text is name.value:
        return value.attribute(ctx, text)
    found = _attempted(ctx, value, text) or default
    return found or value.attribute(ctx, _as_name(ctx, name))  # whose error tells the name as it was given


def _attempted(ctx: Tracer, value: Value, name: str) -> Value | None:
    """The attribute; None where reading it raises AttributeError."""
    return ctx.attempt(PartialValue(BuiltinValue(getattr, receiver=value), [ConstantValue(name)], {}), AttributeError)


@rule(hasattr, kinds=(None, ConstantValue))
def has_attribute(ctx: Tracer, value: Value, name: ConstantValue) -> Value:
    text = _as_name_to_read(ctx, value, name)
    # Members of tensors may raise, and their getters record operations: a fake is asked instead.
    if isinstance(value, TensorValue) and hasattr(torch.Tensor, text) and text != "grad":  # which may warn
        return boolean(hasattr(value.fake, text))
    return boolean(_attempted(ctx, value, text) is not None)


@rule(setattr, kinds=(None, ConstantValue, None))
def assign_attribute(ctx: Tracer, owner: Value, name: ConstantValue, value: Value) -> Value:
    owner.set_attribute(ctx, _as_name(ctx, name), value)
    return NONE


@rule(delattr, kinds=(None, ConstantValue))
def delete_attribute(ctx: Tracer, owner: Value, name: ConstantValue) -> Value:
    owner.set_attribute(ctx, _as_name(ctx, name), None)
    return NONE


@rule(object.__setattr__, kinds=(UserObject, ConstantValue, None))
def plain_assignment(ctx: Tracer, owner: UserObject, name: ConstantValue, value: Value) -> Value:
    owner.plain_set(ctx, _as_name(ctx, name), value)
    return NONE


@rule(object.__delattr__, kinds=(UserObject, ConstantValue))
def plain_deletion(ctx: Tracer, owner: UserObject, name: ConstantValue) -> Value:
    owner.plain_set(ctx, _as_name(ctx, name), None)
    return NONE


@rule(type.__setattr__, kinds=(ClassValue, ConstantValue, None))
def plain_assignment_to_class(ctx: Tracer, owner: ClassValue, name: ConstantValue, value: Value) -> Value:
    owner.plain_set(ctx, _as_name(ctx, name), value)
    return NONE


@rule(type.__delattr__, kinds=(ClassValue, ConstantValue))
def plain_deletion_from_class(ctx: Tracer, owner: ClassValue, name: ConstantValue) -> Value:
    owner.plain_set(ctx, _as_name(ctx, name), None)
    return NONE


@rule(object.__getattribute__, kinds=(UserObject, ConstantValue))
def plain_reading(ctx: Tracer, owner: UserObject, name: ConstantValue) -> Value:
    text = _as_name(ctx, name)
    found = owner.plain_attribute(ctx, text)
    if found is None:
        owner.absent(ctx, text)
        ctx.throw(AttributeError, f"'{type_name(owner.cls)}' object has no attribute '{text}'")
    return found


@rule(object.__setattr__, object.__delattr__, object.__getattribute__, kinds=((ConstantValue, TensorValue),))
def leave_access(ctx: Tracer, owner: Value, *operands: Value) -> Value:
    """Members of an enum and tensors have attributes, too, past which nothing is computed or recorded."""
    return ctx.stop(Kind.ATTRIBUTE, f"an attribute of {owner.describe()} is reached by a method of `object`")


@rule(TORCHS["__getattr__"], kinds=(ModuleValue, ConstantValue))
def module_reading(ctx: Tracer, owner: ModuleValue, name: ConstantValue) -> Value:
    text = _as_name(ctx, name)
    found = owner._in_tables(ctx, text)
    if found is None:
        ctx.throw(AttributeError, f"'{type_name(owner.cls)}' object has no attribute '{text}'")
    return found


@rule(bind_member, kinds=(None, ClassValue, ConstantValue))
def bind_plain_member(ctx: Tracer, value: Value, cls: ClassValue, name: ConstantValue) -> Value:
    """A member of the type of a container, a string, a number."""
    owner, member = lookup(cls.cls, name.value)
    kind = type(member).__name__
    # Of C: bound by the builtin itself.
    if kind in ("method_descriptor", "wrapper_descriptor"):
        return BuiltinValue(member, receiver=value)
    # Bound to the class, or to nothing.
    if kind in ("classmethod_descriptor", "builtin_function_or_method"):
        return BuiltinValue(getattr(cls.cls, name.value))
    if isinstance(member, (FunctionType, classmethod, staticmethod, property)) or binds_by_code(member):
        return bind(ctx, member, owner, name.value, value)
    if isinstance(value.identity(), enum.Enum) and name.value == "value" and owner.__module__ == "enum":
        held = object.__getattribute__(value.identity(), "__dict__").get("_value_")
        # A list, say: the very one, to which the program may write.
        if not isinstance(held, (int, float, complex, str, bytes, type(None))):
            return value.attribute(ctx, "_value_")
    folded = fold(ctx, getattr, [value, name], {})
    if folded is None:
        ctx.stop(Kind.ATTRIBUTE, f"`{name.value}` of {value.describe()} is read")
    return folded


def methods_of_constants(
    ctx: Tracer, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value | None:
    """The family of methods of strings, numbers and the like on constants: immutable receivers make them pure."""
    # The class that a method of C belongs to.
    owner = None if isinstance(function, type) else getattr(function, "__objclass__", None)
    # Of ``object``, which members of an enum have attributes by: these write, or read what may be written.
    if getattr(function, "__name__", "") in ("__setattr__", "__delattr__", "__getattribute__"):
        return None
    if owner in _IMMUTABLE and args and isinstance(args[0], ConstantValue):
        return fold(ctx, function, args, kwargs)
    if module_name(function) in ("math", "cmath", "_operator", "operator") and callable(function):
        return fold(ctx, function, [_specialized(arg) for arg in args], kwargs)
    return None


_IMMUTABLE = (
    str,
    bytes,
    int,
    float,
    complex,
    bool,
    frozenset,
    range,
    torch.dtype,
    torch.device,
    type(None),
    tuple,
    re.Pattern,
    re.Match,
    object,
)


def _specialized(value: Value) -> Value:
    return ConstantValue(value.specialized()) if isinstance(value, SymbolicNumber) else value


# -- conversion --------------------------------------------------------------------------------------------------


@rule(bool, kinds=(None,))
def to_bool(ctx: World, value: Value) -> Value:
    if isinstance(value, TensorValue):
        return _truth_of_tensor(ctx, value)
    return boolean(value.truth(ctx))


@rule(int, kinds=(TensorValue,))
def tensor_to_int(ctx: Tracer, value: TensorValue) -> Value:
    return ctx.call_builtin(int, [ctx.call_builtin(torch.Tensor.item, [value], {})], {})


@rule(float, kinds=(TensorValue,))
def tensor_to_float(ctx: World, value: TensorValue) -> Value:
    if value.fake.requires_grad:
        warn_as_torch_does(ctx, "float")
    return ctx.call_builtin(float, [ctx.call_builtin(torch.Tensor.item, [value], {})], {})


def _truth_of_tensor(ctx: World, value: TensorValue) -> Value:
    # Where it follows from integer arguments the graph goes on, under a guard.
    answer = ctx.decide(value)
    if answer is not None:
        return boolean(answer)
    hint = "use torch.where"
    return ctx.stop(Kind.TENSOR_VALUE, f"the truth of {value.describe()} decides what happens next", hint)


def _object_to_number(wanted: type, *names: str) -> Any:
    """The rule that turns an object into a number by the first of these methods that its class has."""

    def convert(ctx: Tracer, value: UserObject) -> Value:
        for name in names:
            # ``__index__`` gives a whole number, which is then converted.
            said = value.answer(ctx, name, wanted if name != "__index__" else int)
            if said is not None:
                return said if name != "__index__" else ctx.call_builtin(wanted, [said], {})
        return ctx.stop(Kind.BUILTIN, f"{value.describe()} is turned into a number")

    return convert


rule(int, kinds=(UserObject,))(_object_to_number(int, "__int__", "__index__"))
rule(float, kinds=(UserObject,))(_object_to_number(float, "__float__", "__index__"))


@rule(weakref.ref.__call__, kinds=(UserObject,))
def dereference(ctx: Tracer, reference: UserObject) -> Value:
    """The object that a weak reference leads to, if it was met on another path; relied on from now on."""
    target = weakref.ref.__call__(reference.obj) if type(reference.obj) is weakref.ref else None  # a subclass may count
    found = ctx.known(target)
    if reference.source is None or found is None:
        ctx.stop(Kind.WEAK_REFERENCE, f"{reference.describe()} is followed to an object that is met nowhere else")
    text = f"{reference.source.expression()}() is what it was"
    if found.source is None or isinstance(found.source, ConstSource):
        ctx.guard(reference.source, GuardKind.REFERS, weakref.ref(target), text=text)
    else:  # whichever object it is
        led_to = MadeSource(reference.source, weakref.ref.__call__)
        ctx.guard(None, GuardKind.SAME, (led_to, found.source), None, None, text=text)
    return found


@rule(weakref.ref, weakref.proxy, weakref.finalize)
def refer_weakly(ctx: World, *operands: Value, **options: Value) -> Value:
    """Leaves the frame to CPython, as whoever asks for a weak reference knows when the object ends.

    It ends when no variable of the function holds it any more.
    """
    ctx.leave_frame(Kind.WEAK_REFERENCE, f"a weak reference to {realize(ctx, operands[0]).describe()} is made")
