"""Making objects: instances of classes, what ``object`` refuses to make, slices, partials, methods.

``cls(...)`` goes by the steps of ``type.__call__``: ``__new__``, and ``__init__`` where that gave an instance of the
class.  An object that is made here exists as a value only; CPython makes it if it leaves the function.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MethodType

import torch

from capture.evaluator.builtin_rules.exceptions import make_exception
from capture.evaluator.builtin_rules.making import initialised_by_code, is_initialised, made_by_code
from capture.evaluator.builtin_rules.registry import fold, rule
from capture.evaluator.world import World
from capture.reasons import Kind
from capture.values.base import Tracer, Value, callable_type, derives, held_by, module_name, throw_as
from capture.values.classes import ClassValue, SuperValue
from capture.values.constant import NONE, NOT_IMPLEMENTED, TRUE, ConstantValue, is_none
from capture.values.container_object import ContainerObject, empty_contents, storage_class
from capture.values.descriptors import special
from capture.values.function import BoundMethod, FunctionValue
from capture.values.module import ModuleValue
from capture.values.partial import PartialValue
from capture.values.sequence import SliceValue, TupleValue, require_plain_tuple
from capture.values.slots import is_slot_of_c
from capture.values.user_object import UserObject, lookup


@rule(slice)
def make_slice(ctx: Tracer, first: Value, stop: Value | None = None, step: Value = NONE, /) -> Value:
    return SliceValue(NONE, first, step) if stop is None else SliceValue(first, stop, step)


@rule(object)
def make_object(ctx: Tracer) -> Value:
    return UserObject(object)


@rule(functools.partial, kinds=(None,))
def make_partial(ctx: Tracer, function: Value, *args: Value, **kwargs: Value) -> Value:
    # As CPython does: a partial of a partial is flattened, unless somebody could have hung attributes on the inner one.
    if isinstance(function, PartialValue) and function.source is None:  # one that has no attributes
        return PartialValue(function.function, [*function.args, *args], {**function.kwargs, **kwargs})
    if not callable_type(function):
        ctx.throw(TypeError, "the first argument must be callable")
    return PartialValue(function, args, kwargs)


@rule(super)
def make_super(ctx: Tracer, cls: Value, receiver: Value) -> Value:
    found = receiver.constant() if isinstance(receiver, ClassValue) else receiver.python_type()
    if not (derives(found, cls.constant()) or derives(receiver.python_type(), cls.constant())):
        ctx.stop(Kind.SUPER, f"`super()` is asked for an object of another class, {receiver.describe()}")
    return SuperValue(cls.constant(), receiver)


@rule(MethodType, kinds=(None, None))
def make_method(ctx: Tracer, function: Value, receiver: Value) -> Value:
    if not callable_type(function):
        throw_as(ctx, MethodType, None, 0)
    if is_none(receiver):
        throw_as(ctx, MethodType, len, None)
    return BoundMethod(receiver, function)


@rule(FunctionType.__get__, kinds=(FunctionValue, None))
def bind_function(ctx: Tracer, function: FunctionValue, receiver: Value, cls: Value = NONE) -> Value:
    return function if is_none(receiver) else BoundMethod(receiver, function)


@rule(getattr(MethodType, "__get__", FunctionType.__get__), kinds=(BoundMethod, None))
def bind_again(ctx: Tracer, method: BoundMethod, *operands: Value) -> Value:
    return method


_INIT: Callable[..., None] = object.__init__


def refuse_finalizer(ctx: Tracer, cls: type) -> None:
    """Breaks the graph where an object is made that does something when it goes: that one has to exist."""
    if held_by(cls, "__del__") is not None:
        ctx.stop(Kind.FINALIZER, f"an object of `{cls.__qualname__}` is made, which has a `__del__`")


@rule(object.__new__, kinds=(ClassValue,))
def new_object(ctx: Tracer, cls: ClassValue, *args: Value, **kwargs: Value) -> Value:
    refuse_finalizer(ctx, cls.cls)
    _refuse_as_object_does(ctx, cls.cls, bool(args or kwargs))
    made = UserObject(cls.cls)
    made.class_source = cls.source
    return made


def _refuse_as_object_does(ctx: Tracer, cls: type, has_arguments: bool) -> None:
    """Raises as ``object.__new__`` does: for arguments that nobody takes, abstract classes, and those made in C."""
    if held_by(cls, "__abstractmethods__") is not None:
        ctx.rely_on_member(cls, "__abstractmethods__")
    try:
        # Tried for real, on nothing: it makes an empty object and throws it away, or raises what the program would see.
        object.__new__(cls, *[None] * has_arguments)
    except TypeError as error:
        ctx.throw(TypeError, *error.args)


def _new_of(kind: type) -> None:
    @rule(kind.__new__, kinds=(ClassValue,))
    def new_container(ctx: Tracer, cls: ClassValue, *args: Value, **kwargs: Value) -> Value:
        if not derives(cls.cls, kind):
            ctx.stop(Kind.CALL, f"`{kind.__name__}.__new__` is asked for an object of {cls.describe()}")
        base = storage_class(cls.cls)
        # The builtin itself.
        if base is None:
            return empty_contents(cls.cls)
        made = ContainerObject(cls.cls, empty_contents(base))
        made.class_source = cls.source
        return made


for _kind in (dict, list, set, collections.deque, collections.defaultdict, collections.OrderedDict):
    _new_of(_kind)


@rule(object.__init__, kinds=(UserObject,))
def init_object(ctx: Tracer, value: UserObject, *args: Value, **kwargs: Value) -> Value:
    if args or kwargs:
        try:
            # Its own words for surplus arguments, which depend on what the class overrides.
            _INIT(object.__new__(value.cls), None)
        except TypeError as error:
            ctx.throw(TypeError, *error.args)
    return NONE


@rule(object.__eq__, kinds=(None, None))
def default_equality(ctx: Tracer, left: Value, right: Value) -> Value:
    return TRUE if ctx.is_one_object(left, right) else NOT_IMPLEMENTED


def construct(ctx: World, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """``cls(...)`` for classes without a rule: exceptions, named tuples, and classes whose code can be evaluated."""
    if not isinstance(function, type):
        return None
    # A metaclass with a ``__call__`` of its own decides what making an object means.
    if lookup(type(function), "__call__")[1] is not vars(type)["__call__"]:
        return _through_metaclass(ctx, function, args, kwargs)
    return _call_of_type(ctx, function, args, kwargs)


@rule(type.__call__, kinds=(ClassValue,))
def call_class(ctx: World, cls: ClassValue, /, *args: Value, **kwargs: Value) -> Value:
    """``type.__call__``, to which a metaclass's own ``__call__`` passes on."""
    made = _call_of_type(ctx, cls.cls, args, kwargs)
    return made if made is not None else ctx.stop(Kind.CLASS, f"{cls.describe()} is called by its metaclass")


def _call_of_type(ctx: World, cls: type, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    if issubclass(cls, BaseException):
        return make_exception(ctx, cls, args, kwargs)
    return _make_instance(ctx, cls, args, kwargs)


def _through_metaclass(ctx: Tracer, cls: type, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """The object that a metaclass's own ``__call__`` gives; None where it is in C and may do anything."""
    # An Enum is looked up by value; other metaclasses may do anything.
    if module_name(type(cls)) == "enum":
        ctx.rely_on_member(cls, "_missing_")
        return None if _asks_for_what_is_missing(cls, args) else fold(ctx, cls, args, kwargs)
    if is_slot_of_c(type(cls), "__call__"):
        return None
    own = special(ctx, ctx.literal(cls), "__call__")
    return None if own is None else ctx.call(own, args, kwargs)


def _asks_for_what_is_missing(cls: type, args: Sequence[Value]) -> bool:
    """True if code of the program's own has to say which member of an Enum has a value."""
    if module_name(_owner(cls, "_missing_")) == "enum":
        return False
    value = args[0] if len(args) == 1 else None
    members = (member.value for member in cls.__members__.values())  # type: ignore[attr-defined]
    return not isinstance(value, ConstantValue) or value.value not in list(members)


def _owner(cls: type, name: str) -> type:
    return lookup(cls, name)[0]


def _make_instance(ctx: Tracer, cls: type, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """An object of a class by the steps of ``type.__call__``; None where one of them is in C and not known."""
    refuse_finalizer(ctx, cls)
    target = ctx.literal(cls)
    assert isinstance(target, ClassValue)
    made = made_by_code(ctx, target, args, kwargs) or _made_by_c(ctx, target, args, kwargs)
    if made is None or not is_initialised(made, cls) or initialised_by_code(ctx, made, args, kwargs):
        return made
    init = lookup(made.python_type(), "__init__")[1]
    if init is not _INIT:
        ctx.call_builtin(init, [made, *args], kwargs)
    return made


def _made_by_c(ctx: Tracer, target: ClassValue, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """The object that a ``__new__`` in C makes, of which nothing is initialised; None where it is not known."""
    cls = target.cls
    new: object = lookup(cls, "__new__")[1]
    if isinstance(new, staticmethod):
        new = new.__func__
    made: Value
    if new is object.__new__:
        # The flag of classes made by a class statement.
        if not cls.__flags__ & (1 << 9):
            return None  # a C type in disguise
        if (args or kwargs) and _owner(cls, "__new__") is not object:
            return None  # by this detour it refuses them
        _refuse_as_object_does(ctx, cls, bool(args or kwargs))
        # Nothing of ``__init__`` has run yet: attributes follow from evaluating it.
        made = ModuleValue(cls) if issubclass(cls, torch.nn.Module) else UserObject(cls)
        made.class_source = target.source
    elif (base := storage_class(cls)) is not None and new is base.__new__:
        made = ContainerObject(cls, empty_contents(base))
        made.class_source = target.source
    # Named tuples, and the return types of torch's functions.
    elif new is tuple.__new__ or hasattr(cls, "n_sequence_fields"):
        require_plain_tuple(ctx, cls)
        made = TupleValue(ctx.call_builtin(list, list(args), {}).elements(ctx), cls=cls)
    else:
        return None
    return made
