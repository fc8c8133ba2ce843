"""Things that are called: Python functions, methods, builtins; and the cells and globals they share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import (
    CodeType,
    FunctionType,
    MethodType,
)
from typing import Any

from capture._engine import Outside
from capture.guards.kinds import GuardKind
from capture.guards.sources import AttrSource, ConstSource, DictSource, KeySource, Source
from capture.reasons import Kind
from capture.values.base import NotConstant, Tracer, Value, module_name, realize, type_attribute
from capture.values.bound_methods import BOUND, attribute_of_bound
from capture.values.constant import UNBOUND, ConstantValue
from capture.values.instance_dict import dict_to_read


class CellValue(Value):
    """A closure cell: ``content`` is what it holds now; ``source`` leads to the real cell, if there is one already."""

    def __init__(self, content: Value = UNBOUND, source: Source | None = None) -> None:
        self.content = content
        self.source = source

    def python_type(self) -> type:
        """The type of cells, which has no name in builtins."""
        return type((lambda x: lambda: x)(0).__closure__[0])  # type: ignore[index]

    def attribute(self, ctx: Tracer, name: str) -> Value:
        if name == "cell_contents":
            return ctx.throw(ValueError, "Cell is empty") if self.content is UNBOUND else realize(ctx, self.content)
        return super().attribute(ctx, name)

    def let_go(self) -> None:
        self.content = UNBOUND

    def parts(self) -> Iterator[Value]:
        yield self.content


class FunctionValue(Value):
    """A Python function, real (``function`` and ``source`` known) or made by the code under evaluation."""

    def __init__(
        self,
        code: CodeType,
        namespace: NamespaceValue,
        *,
        qualname: str = "",
        defaults: Sequence[Value] = (),
        keyword_defaults: Mapping[str, Value] | None = None,
        closure: Sequence[CellValue] = (),
        function: FunctionType | None = None,
        source: Source | None = None,
        rely_on_identity: Callable[[], None] | None = None,
    ) -> None:
        # A function is its code, globals, defaults and cells: all that a call needs, whether it exists already or not.
        self.code = code
        self.namespace = namespace
        self.qualname = qualname or code.co_qualname
        self.defaults = list(defaults)
        self.keyword_defaults = dict(keyword_defaults or {})
        self.closure = list(closure)
        self.real = function
        """Another function of the same code may be in its place in a later call, unless ``function`` was asked for."""
        self._rely_on_identity = rely_on_identity
        self.source = source
        self.annotations: list[Value] = []
        """Names and what they are annotated with, by turns; those of a real function are not kept here."""
        self.attributes: dict[str, Value] = {}

    def python_type(self) -> type:
        return FunctionType

    @property
    def function(self) -> FunctionType | None:
        # Whoever wants the very object relies on it; a call relies on its code and what belongs to that alone.
        if self._rely_on_identity is not None:
            self._rely_on_identity()
        return self.real

    def identity(self) -> object:
        return self if self.function is None else self.function

    def call(self, ctx: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return ctx.inline(self, args, kwargs)

    def attribute(self, ctx: Tracer, name: str) -> Value:
        if name in self.attributes:
            return self.attributes[name]
        if name == "__dict__" and self.real is not None and self.source is not None:
            return dict_to_read(ctx, self, self.real)
        # A real one is asked, and what it says is guarded by its path.
        if self.real is not None and self.source is not None:
            try:
                found = getattr(self.real, name)
            except AttributeError as error:
                ctx.guard(KeySource(DictSource(self.source), name), GuardKind.ABSENT)
                ctx.throw(AttributeError, *error.args)
            if name == "__get__":
                return BuiltinValue(FunctionType.__get__, receiver=self)
            return ctx.wrap(found, AttrSource(self.source, name))
        return self._made_here(ctx, name)

    def _made_here(self, ctx: Tracer, name: str) -> Value:
        known = {"__name__": self.code.co_name, "__qualname__": self.qualname, "__code__": self.code}
        known["__doc__"] = docstring(self.code)
        if name in known:
            return ConstantValue(known[name])
        if name == "__module__":
            return ConstantValue(self.namespace.contents.get("__name__"))
        # Objects that a function shares with who asks: writes to them would have to be seen here.
        if name in ("__dict__", "__defaults__", "__annotations__", "__globals__", "__kwdefaults__", "__closure__"):
            ctx.stop(Kind.FUNCTION_ATTRIBUTE, f"`{name}` of a function defined in the captured code is read")
        if name == "__get__":
            return BuiltinValue(FunctionType.__get__, receiver=self)
        if name == "__call__":
            return self
        if hasattr(FunctionType, name):
            return type_attribute(ctx, self, name)
        return ctx.throw(AttributeError, f"'function' object has no attribute '{name}'")

    def set_attribute(self, ctx: Tracer, name: str, value: Value | None) -> None:
        # A real function is left to CPython; of one made here, what a call goes by, and what takes some values only.
        if self.real is not None or value is None or not _is_a_mark(ctx, name, value):
            super().set_attribute(ctx, name, value)
        assert value is not None
        # Set on the function when it is built, if it leaves.
        self.attributes[name] = value

    def parts(self) -> Iterator[Value]:
        yield from self.defaults
        yield from self.keyword_defaults.values()
        yield from self.annotations
        yield from self.closure
        yield from self.attributes.values()

    def describe(self) -> str:
        return f"the function `{self.qualname}`"


def _is_a_mark(ctx: Tracer, name: str, value: Value) -> bool:
    """True if a function only keeps what is assigned: its names are texts, and what C reads else is no mark."""
    if name in ("__name__", "__qualname__"):
        return realize(ctx, value).python_type() is str
    return name in ("__doc__", "__module__", "__annotations__") or not hasattr(vars(FunctionType).get(name), "__set__")


def docstring(code: CodeType) -> str | None:
    """The ``__doc__`` that a function made of this code has at first."""
    first = code.co_consts[0] if code.co_consts else None
    flag = getattr(inspect, "CO_HAS_DOCSTRING", 0)  # from 3.14 on the first constant may be any text
    return first if isinstance(first, str) and code.co_flags & flag == flag else None


class NamespaceValue(Value):
    """The globals of a module, as functions see them."""

    def __init__(self, contents: dict[str, Any], source: Source | None, *, trusted: bool) -> None:
        self.contents = contents
        self.source = source
        self.trusted = trusted
        # Globals by name, None where deleted; written to the module when the frame leaves.
        self.written: dict[str, Value | None] = {}

    def python_type(self) -> type:
        return dict

    def parts(self) -> Iterator[Value]:
        return (value for value in self.written.values() if value is not None)


# Where methods have this they are bound for good; before, it is that of their function.
_BINDS_AGAIN = getattr(MethodType, "__get__", None)


class BoundMethod(Value):
    """A method: a function with the object that it was read from."""

    def __init__(self, receiver: Value, function: Value) -> None:
        self.receiver = receiver
        self.function = function

    def python_type(self) -> type:
        # The type of methods, of which this is one.
        return type(self.python_type)

    def call(self, ctx: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        # Bound already: what is behind may be a function of Python or of C.
        return ctx.call(self.function, [self.receiver, *args], kwargs)

    def attribute(self, ctx: Tracer, name: str) -> Value:
        if name == "__func__":
            return self.function
        if name == "__self__":
            return self.receiver
        if name == "__get__" and _BINDS_AGAIN is not None:
            return BuiltinValue(_BINDS_AGAIN, receiver=self)
        if name == "__call__":
            return self
        # Those that the type of methods has itself.
        if name in ("__class__", "__init__", "__hash__", "__eq__", "__ne__", "__repr__", "__reduce__", "__str__"):
            return type_attribute(ctx, self, name)
        # Names that a method has not itself are its function's, as in CPython.
        return self.function.attribute(ctx, name)

    def parts(self) -> Iterator[Value]:
        yield self.receiver
        yield self.function

    def describe(self) -> str:
        return self.function.describe()


def _is_of_a_protocol(name: str) -> bool:
    return len(name) > 4 and name.startswith("__") and name.endswith("__")


class BuiltinValue(Value):
    """A function without Python code, or one of torch's that the graph records whole; ``receiver`` if it is bound."""

    def __init__(self, function: Any, source: Source | None = None, receiver: Value | None = None) -> None:
        self.function = function
        self.source = source
        self.receiver = receiver

    def python_type(self) -> type:
        kind = type(self.function)
        return kind if self.receiver is None else BOUND.get(kind, kind)

    def constant(self) -> Any:
        if self.receiver is not None:
            raise NotConstant
        return self.function

    def identity(self) -> object:
        # A bound one is another object each time that it is read.
        return self.function if self.receiver is None else self

    def call(self, ctx: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        # Rules know functions unbound; a bound one puts its receiver first.
        operands = list(args) if self.receiver is None else [self.receiver, *args]
        return ctx.call_builtin(self.function, operands, dict(kwargs))

    def attribute(self, ctx: Tracer, name: str) -> Value:
        if self.receiver is not None and type(self.function) in BOUND:
            return attribute_of_bound(ctx, self.function, self.receiver, name)
        if self.receiver is not None and name == "__self__":
            return self.receiver
        if isinstance(self.function, Outside) and name not in vars(self.function) and not _is_of_a_protocol(name):
            path = AttrSource(self._place(), "callable")  # what it calls has the others, as they are now
            return ctx.wrap(self.function.callable, path).attribute(ctx, name)
        if isinstance(self.function, (functools._lru_cache_wrapper, Outside)):
            return self._kept(ctx, name)
        try:
            # What is in C says the same in every call.
            return ctx.literal(getattr(self.function, name))
        except AttributeError as error:
            ctx.throw(AttributeError, *error.args)

    def _place(self) -> Source:
        return self.source or ConstSource(self.function, self.describe())

    def _kept(self, ctx: Tracer, name: str) -> Value:
        """An attribute of a function to which programs add their own."""
        if name == "__dict__":
            return ctx.stop(Kind.ATTRIBUTE, f"the `__dict__` of {self.describe()} is read")
        entry = KeySource(DictSource(self._place()), name)
        held = vars(self.function)
        if name in held:
            return ctx.wrap(held[name], entry)
        ctx.guard(entry, GuardKind.ABSENT)
        try:
            return ctx.literal(getattr(self.function, name))
        except AttributeError as error:
            ctx.throw(AttributeError, *error.args)

    def parts(self) -> Iterator[Value]:
        if self.receiver is not None:
            yield self.receiver

    def describe(self) -> str:
        name = getattr(self.function, "__qualname__", None) or repr(self.function)
        module = module_name(self.function)
        return f"the function `{module}.{name}`" if module else f"the function `{name}`"
