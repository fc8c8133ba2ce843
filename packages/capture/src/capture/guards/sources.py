"""Sources: the path by which a value came from the frame's inputs, as frozen data.

A source says three things about one path: how the user would write it (``expression``), how the guard tree reaches it
(``accessor``), and how to read it now (``read``).  It knows nothing of values, guards or bytecode.
"""

from __future__ import annotations

import functools
import gc
import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, TypeVar, dataclass_transform

Accessor = tuple[object, ...]
# What an object keeps of itself in its ``__dict__``, beside the fields: no part of what it is equal to.
_REMEMBERED = frozenset({"_hash", "_root", "_expression"})
S = TypeVar("S", bound="Source")


@dataclass(frozen=True, slots=True)
class Inputs:
    """The function and the arguments that a frame starts from; sources are read against them."""

    function: FunctionType
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Source:
    """Base of all paths."""

    @property
    def base(self) -> Source | None:
        """The path that this one goes on from; None where it begins."""
        return None

    def expression(self) -> str:
        """The path as the user would write it: reports, and names of the graph's inputs, are made of it."""
        raise NotImplementedError

    def accessor(self) -> Accessor:
        """The one step from the base for the engine in C, which follows shared prefixes once for all guards."""
        raise NotImplementedError

    def read(self, inputs: Inputs) -> Any:
        """The object that is there now; raises what reading it raises."""
        raise NotImplementedError

    def __hash__(self) -> int:
        # Paths are hashed all the time and share long prefixes: each object computes its hash once.
        known = self.__dict__.get("_hash")
        if known is None:
            known = hash((type(self).__name__, *(v for k, v in self.__dict__.items() if k not in _REMEMBERED)))
            object.__setattr__(self, "_hash", known)
        return known

    def root(self) -> Source:
        """The first source of the path."""
        known = self.__dict__.get("_root")
        if known is not None:
            return known
        base = self.base
        if base is None:
            return self  # not remembered: it would keep itself alive
        known = base.root()
        object.__setattr__(self, "_root", known)
        return known

    def chain(self) -> Iterator[Source]:
        """The sources from the root of the path to this one."""
        steps: list[Source] = [self]
        while (base := steps[-1].base) is not None:
            steps.append(base)
        return reversed(steps)


@dataclass_transform(frozen_default=True)
def _path(cls: type[S]) -> type[S]:
    """A frozen dataclass that keeps the cached hash of ``Source``, and writes its text once."""
    made = dataclass(frozen=True, eq=True)(cls)
    setattr(made, "__hash__", Source.__hash__)  # noqa: B010 - mypy forbids the assignment of a method
    if "expression" in vars(made):
        setattr(made, "expression", _written_once(made.expression))  # noqa: B010
    return made


def _written_once(write: Callable[[S], str]) -> Callable[[S], str]:
    """The method, with its text remembered: long paths are written by way of shorter ones, which many share."""

    def expression(path: S) -> str:
        known: str | None = path.__dict__.get("_expression")
        if known is None:
            known = write(path)
            object.__setattr__(path, "_expression", known)
        return known

    return expression


@_path
class ArgSource(Source):
    """An argument of the frame, by its position."""

    index: int
    name: str

    def expression(self) -> str:
        return self.name

    def accessor(self) -> Accessor:
        return ("arg", self.index)

    def read(self, inputs: Inputs) -> Any:
        return inputs.args[self.index]


@_path
class ClosureSource(Source):
    """The content of a closure cell of the frame's function."""

    index: int
    name: str

    def expression(self) -> str:
        return self.name

    def accessor(self) -> Accessor:
        return ("closure", self.index)

    def read(self, inputs: Inputs) -> Any:
        closure = inputs.function.__closure__ or ()
        return closure[self.index].cell_contents


@_path
class CellSource(Source):
    """A closure cell of the frame's function itself, of which only its content is checked, and which cell it is."""

    index: int
    name: str

    def expression(self) -> str:
        return self.name

    def accessor(self) -> Accessor:
        return ("cell", self.index)

    def read(self, inputs: Inputs) -> Any:
        return (inputs.function.__closure__ or ())[self.index]


@_path
class GlobalSource(Source):
    """A name of the function's globals, or of the builtins behind them."""

    name: str

    def expression(self) -> str:
        return self.name

    def accessor(self) -> Accessor:
        return ("global", self.name)

    def read(self, inputs: Inputs) -> Any:
        namespace = inputs.function.__globals__
        if self.name in namespace:
            return namespace[self.name]
        # A module, or its dictionary: Python has both, by how the globals came to be.
        builtins = namespace["__builtins__"]
        return (builtins if isinstance(builtins, dict) else vars(builtins))[self.name]


class ConstSource(Source):
    """An object that outlives every frame (a module, a class of torch); compared by identity."""

    def __init__(self, obj: object, name: str) -> None:
        object.__setattr__(self, "obj", obj)
        object.__setattr__(self, "name", name)

    obj: object
    name: str

    # By identity, as for guards: an object's own ``__eq__`` is the program's code, and would be the wrong question.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstSource) and other.obj is self.obj

    def __hash__(self) -> int:
        return id(self.obj)

    def expression(self) -> str:
        return self.name

    def accessor(self) -> Accessor:
        return ("const", self.obj)

    def read(self, inputs: Inputs) -> Any:
        return self.obj


class SignatureSource(ConstSource):
    """The signature of a callable, as ``inspect`` made it when it was asked for; ``bound`` leaves out the first."""

    def __init__(self, function: Callable[..., object], *, bound: bool) -> None:
        asked = MethodType(function, object()) if bound else function  # any receiver will do
        super().__init__(inspect.signature(asked), "a Signature")
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "bound", bound)

    function: Callable[..., object]
    bound: bool


class CallSource(Source):
    """The answer of a function without arguments: the way to read torch's global state."""

    def __init__(self, function: Callable[[], object], name: str) -> None:
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "name", name)

    function: Callable[[], object]
    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallSource) and other.function == self.function

    def __hash__(self) -> int:
        return hash(self.function)

    def expression(self) -> str:
        return self.name

    def accessor(self) -> Accessor:
        return ("call", self.function)

    def read(self, inputs: Inputs) -> Any:
        return self.function()


@dataclass(frozen=True)
class Derived(Source):
    """A step from another source."""

    parent: Source

    __hash__ = Source.__hash__

    @property
    def base(self) -> Source:
        return self.parent


@_path
class AttrSource(Derived):
    """An attribute, read as the program reads it."""

    name: str

    def expression(self) -> str:
        return f"{self.parent.expression()}.{self.name}"

    def accessor(self) -> Accessor:
        return ("attr", self.name)

    def read(self, inputs: Inputs) -> Any:
        return getattr(self.parent.read(inputs), self.name)


@_path
class DictSource(Derived):
    """The ``__dict__`` of an instance."""

    def expression(self) -> str:
        return f"{self.parent.expression()}.__dict__"

    def accessor(self) -> Accessor:
        return ("dict",)

    def read(self, inputs: Inputs) -> Any:
        # Past a `__getattribute__` of the class, as the engine does.
        return object.__getattribute__(self.parent.read(inputs), "__dict__")


@_path
class TypeSource(Derived):
    """The class of an object."""

    def expression(self) -> str:
        return f"type({self.parent.expression()})"

    def accessor(self) -> Accessor:
        return ("type",)

    def read(self, inputs: Inputs) -> Any:
        return type(self.parent.read(inputs))


@_path
class KeySource(Derived):
    """A value of an exact dict."""

    key: Any

    def expression(self) -> str:
        if isinstance(self.parent, DictSource) and isinstance(self.key, str):
            return f"{self.parent.parent.expression()}.{self.key}"
        return _unwrapped_container(self.parent, self.key)

    def accessor(self) -> Accessor:
        return ("key", self.key)

    def read(self, inputs: Inputs) -> Any:
        return self.parent.read(inputs)[self.key]


@_path
class HiddenEntrySource(KeySource):
    """An entry of an instance's ``__dict__`` that is not the attribute of its name: code of its class stands before."""

    def expression(self) -> str:
        return f"{self.parent.expression()}[{self.key!r}]"


class ObjectKeySource(Derived):
    """A value of a dict under a key that is known by its identity: optimizers keep state by parameter."""

    def __init__(self, parent: Source, key: object) -> None:
        object.__setattr__(self, "parent", parent)
        object.__setattr__(self, "key", key)

    parent: Source
    key: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectKeySource) and other.key is self.key and other.parent == self.parent

    def __hash__(self) -> int:
        return hash((self.parent, id(self.key)))

    def expression(self) -> str:
        return f"{self.parent.expression()}[a {type(self.key).__name__}]"

    def accessor(self) -> Accessor:
        return ("key", self.key)

    def read(self, inputs: Inputs) -> Any:
        return self.parent.read(inputs)[self.key]


@_path
class ItemSource(Derived):
    """An item of an exact list or tuple."""

    index: int

    def expression(self) -> str:
        return f"{self.parent.expression()}[{self.index}]"

    def accessor(self) -> Accessor:
        return ("item", self.index)

    def read(self, inputs: Inputs) -> Any:
        return self.parent.read(inputs)[self.index]


@_path
class ShownSource(Derived):
    """The mapping that a read-only view of one shows."""

    def expression(self) -> str:
        return self.parent.expression()

    def accessor(self) -> Accessor:
        return ("shown",)

    def read(self, inputs: Inputs) -> Any:
        # A mappingproxy has no attribute that leads to what it shows; the collector of garbage knows.
        return gc.get_referents(self.parent.read(inputs))[0]


@_path
class MadeSource(Derived):
    """An object that a function makes, for each call anew, of what is found on another path."""

    function: Callable[..., object]

    def expression(self) -> str:
        return self.parent.expression()

    def accessor(self) -> Accessor:
        return ("made", self.function)

    def read(self, inputs: Inputs) -> Any:
        return self.function(self.parent.read(inputs))


class SubclassSource(CallSource):
    """The answer of ``issubclass``, which a program may change by ``register``."""

    def __init__(self, cls: type, of: type) -> None:
        super().__init__(functools.partial(issubclass, cls, of), f"issubclass({cls.__qualname__}, {of.__qualname__})")
        object.__setattr__(self, "cls", cls)
        object.__setattr__(self, "of", of)

    cls: type
    of: type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SubclassSource) and other.cls is self.cls and other.of is self.of

    def __hash__(self) -> int:
        return hash((SubclassSource, id(self.cls), id(self.of)))


class EnvironmentSource(CallSource):
    """A variable of the environment, as the bytes that it is kept in; None where there is none of the name."""

    def __init__(self, key: str) -> None:
        kept = vars(os.environ)
        super().__init__(functools.partial(kept["_data"].get, kept["encodekey"](key)), f"os.environ[{key!r}]")
        object.__setattr__(self, "key", key)

    key: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EnvironmentSource) and other.key == self.key

    def __hash__(self) -> int:
        return hash((EnvironmentSource, self.key))


class NumberSource(Source):
    """A number of the program's text.  ``1``, ``1.0`` and ``True`` are three, and so are the two zeros of floats."""

    def __init__(self, number: float) -> None:
        object.__setattr__(self, "number", number)

    number: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumberSource) and repr(other.number) == repr(self.number)

    def __hash__(self) -> int:
        return hash(repr(self.number))

    def expression(self) -> str:
        return repr(self.number)

    def read(self, inputs: Inputs) -> Any:
        return self.number


class FormulaSource(Source):
    """A number that Python's arithmetic makes of others, for each call anew and in the program's order.

    Floats that are computed from sizes and from dynamic ints are such: in any other order they would be rounded
    differently.  ``text`` says the formula, with a ``{}`` for each operand.
    """

    def __init__(self, function: Callable[..., object], operands: tuple[Source, ...], text: str) -> None:
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "operands", operands)
        object.__setattr__(self, "text", text)

    function: Callable[..., object]
    operands: tuple[Source, ...]
    text: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FormulaSource) and (other.text, other.operands) == (self.text, self.operands)

    def __hash__(self) -> int:
        known = self.__dict__.get("_hash")
        if known is None:
            known = hash((self.text, self.operands))
            object.__setattr__(self, "_hash", known)
        return int(known)

    def expression(self) -> str:
        return self.text.format(*(operand.expression() for operand in self.operands))

    def read(self, inputs: Inputs) -> Any:
        return self.function(*(operand.read(inputs) for operand in self.operands))


@_path
class StorageSource(Derived):
    """An item of an instance of a subclass of list or dict, read past any method of the subclass."""

    key: object
    base_class: Any

    def expression(self) -> str:
        return f"{self.parent.expression()}[{self.key!r}]"

    def accessor(self) -> Accessor:
        return ("item" if issubclass(self.base_class, list) else "key", self.key)

    def read(self, inputs: Inputs) -> Any:
        # By the method of the base: what the subclass defines may do anything.
        return self.base_class.__getitem__(self.parent.read(inputs), self.key)


@_path
class GetitemSource(Derived):
    """An item reached through ``__getitem__`` of any type."""

    key: object

    def expression(self) -> str:
        return f"{self.parent.expression()}[{self.key!r}]"

    def accessor(self) -> Accessor:
        return ("getitem", self.key)

    def read(self, inputs: Inputs) -> Any:
        return self.parent.read(inputs)[self.key]


def _unwrapped_container(container: Source, key: object) -> str:
    """``m._parameters['weight']`` reads as ``m.weight``, which is what the user wrote."""
    holder = container.parent if isinstance(container, Derived) else None
    inner = getattr(container, "key", getattr(container, "name", None))
    if isinstance(inner, str) and inner in ("_parameters", "_buffers", "_modules") and isinstance(holder, Source):
        owner = holder.parent if isinstance(holder, DictSource) else holder
        return f"{owner.expression()}.{key}"
    if isinstance(container, AttrSource) and container.name == "__globals__":
        return str(key)
    return f"{container.expression()}[{key!r}]"


def comes_with_the_call(source: Source) -> bool:
    """True if the caller passes it, or what leads to it: it may be another object in each call."""
    return isinstance(source.root(), ArgSource)


def may_be_dynamic(source: Source) -> bool:
    """True if a number on this path may become a symbol: not where torch or the standard library leads to it."""
    root = source.root()
    return isinstance(root, (ArgSource, ClosureSource, GlobalSource)) or (
        isinstance(root, ConstSource) and issubclass(type(root.obj), type)
    )
