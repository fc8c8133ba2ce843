"""Values, sources and guards as JSON, both ways.

    plain values      themselves, or tagged: ["t", items...] is a tuple, ["f", hex] a float
    sets              ["set", items...], which guards alone refer to: as a constant, it would have an order
    objects           ["n", k]: what the k-th name of the version leads to
    on a path         ["at", source, content]: what that source leads to now, if its content is what it was
    bound methods     ["bound", object, name]: those of ContextVars
    which it is       ["here", source, default]: the tensor, ContextVar or cell that this source leads to now
    questions         ["question", nodes, sources, answer]: what a graph asks of tensors, whose nodes `node` refers to
    sources           ["s", k]: the k-th of the version's table, whose rows refer to rows before them

What has no form raises ``NotStored``.
"""

from __future__ import annotations

import enum
import functools
import json
import sys
from collections.abc import Callable, Sequence
from contextvars import Context, ContextVar
from types import BuiltinFunctionType, CellType, CodeType, FunctionType
from typing import Any

import torch
from torch import fx

from capture.errors import Location
from capture.evaluator.decisions import Question, SameAnswer
from capture.guards import sources
from capture.guards.decided import decided
from capture.guards.guard import Guard
from capture.guards.kinds import GuardKind
from capture.guards.sources import ConstSource, DictSource, Inputs, KeySource, ObjectKeySource, Source
from capture.stored.contents import Contents, NotStored, class_name, digest
from capture.stored.names import NamesWritten
from capture.stored.reach import Entered

Data = Any
"""Anything that ``json`` reads and writes."""

_AS_THEY_ARE = (bool, int, type(None))
_SEQUENCES: dict[type, str] = {tuple: "t", torch.Size: "S", list: "l"}
_OF_TORCH = (torch.dtype, torch.layout, torch.memory_format)
_SOURCES: dict[str, tuple[str, ...]] = {
    "ArgSource": ("index", "name"),
    "ClosureSource": ("index", "name"),
    "CellSource": ("index", "name"),
    "GlobalSource": ("name",),
    "ConstSource": ("obj", "name"),
    "SignatureSource": ("function", "bound"),
    "CallSource": ("function", "name"),
    "SubclassSource": ("cls", "of"),
    "EnvironmentSource": ("key",),
    "AttrSource": ("parent", "name"),
    "DictSource": ("parent",),
    "TypeSource": ("parent",),
    "KeySource": ("parent", "key"),
    "HiddenEntrySource": ("parent", "key"),
    "ItemSource": ("parent", "index"),
    "ShownSource": ("parent",),
    "MadeSource": ("parent", "function"),
    "NumberSource": ("number",),
    "FormulaSource": ("function", "operands", "text"),
    "StorageSource": ("parent", "key", "base_class"),
    "GetitemSource": ("parent", "key"),
    "ObjectKeySource": ("parent", "key"),
}
_BY_IDENTITY = (torch.Tensor, torch.nn.Parameter, ContextVar, CellType, object)
"""The classes of objects that a version may rely on by identity, as optimizers keep state by parameter; what they hold
is guarded where it is read.  A plain ``object`` holds nothing: programs mark a missing argument with one."""
_CONTAINERS = (dict, list, tuple, torch.Size)
_MADE_IN_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_AT_PATHS = (FunctionType, CodeType, dict)
"""The classes of objects without a name that are known by the path on which a guard finds them, and by content."""
_TABLES = ("_parameters", "_buffers", "_modules")
"""The tables in which modules keep what is no plain attribute."""


class DataWriter:
    """Writes one version's values; keeps its tables of names and sources."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.names = NamesWritten(contents)
        self.paths: list[Data] = []
        self._places: dict[Source, int] = {}
        self._texts: dict[int, tuple[int, str]] = {}
        self._here: dict[int, tuple[object, Source]] = {}
        self._on_paths: dict[int, tuple[FunctionType, Source]] = {}
        self.found_on_paths: dict[int, tuple[FunctionType | CodeType, int]] = {}
        """Functions and code by identity, whose content is compared on the path of this number."""

    def write(self, obj: Any) -> Data:
        cls = type(obj)
        if cls in _AS_THEY_ARE:
            return obj
        if cls is str:
            return self._text(obj)
        # In hexadecimal, which has all digits, and names NaN and the infinities.
        if cls is float:
            return ["f", obj.hex()]
        if cls is complex:
            return ["c", obj.real.hex(), obj.imag.hex()]
        if cls is bytes:
            return ["b", obj.hex()]
        if cls in _SEQUENCES:
            return [_SEQUENCES[cls], *map(self.write, obj)]
        if cls is slice:
            return ["slice", *map(self.write, (obj.start, obj.stop, obj.step))]
        if cls is range:
            return ["range", obj.start, obj.stop, obj.step]
        if cls in _OF_TORCH:
            return ["torch", str(obj).removeprefix("torch.")]
        if cls is torch.device:
            return ["device", str(obj)]
        if obj is ... or obj is NotImplemented:
            return ["constant", repr(obj)]
        # By its row in the table: no name leads to an object of ours.
        if issubclass(cls, Source):
            return ["s", self.path(obj)]
        if cls is functools.partial:
            return ["p", *map(self.write, (obj.func, obj.args, list(obj.keywords.items())))]
        if cls is BuiltinFunctionType and type(obj.__self__) is ContextVar:
            return ["bound", self.write(obj.__self__), obj.__name__]
        if cls is SameAnswer:
            return self._question(obj.question, obj.answer)
        return self._object(obj)

    def _question(self, question: Question, answer: bool) -> Data:
        if question.places is None:
            raise NotStored("a size is among what it is asked of tensors")
        *nodes, output = question.graph.nodes
        steps = [node for node in nodes if node.op != "placeholder"]
        given = [node for node in nodes if node.op == "placeholder"]
        numbers = {node: number for number, node in enumerate([*given, *steps])}

        def argument(value: object) -> Data:
            if isinstance(value, fx.Node):
                return ["node", numbers[value]]
            if isinstance(value, tuple | list):
                return ["t" if isinstance(value, tuple) else "l", *map(argument, value)]
            return self.write(value)

        rows = []
        for node in steps:
            target = node.target if isinstance(node.target, str) else self.write(node.target)
            kwargs = [[name, argument(value)] for name, value in node.kwargs.items()]
            rows.append([node.op, target, argument(node.args), kwargs])
        return ["question", rows, list(map(self.path, question.places)), argument(output.args[0]), answer]

    def _text(self, text: str) -> Data:
        """A text; equal texts that are two objects stay two."""
        if sys.intern(text) is text:
            return text
        number = self._texts.setdefault(id(text), (len(self._texts), text))[0]
        return ["text", number, text]

    def is_found(self, obj: object) -> bool:
        """True if a path that is told, or a name, leads to this very object."""
        return id(obj) in self._here or self.names.place(obj) is not None

    def _object(self, obj: Any) -> Data:
        """An object by its name, or as a member of its enum."""
        if issubclass(type(obj), enum.Enum) and type(obj).__members__.get(obj._name_) is obj:
            return ["member", self.write(type(obj)), obj._name_]
        if id(obj) in self._here:
            return self.here(obj)
        place = self.names.place(obj)
        if place is not None:
            return ["n", place]
        if id(obj) in self._on_paths:
            return self.at_a_path(*self._on_paths[id(obj)])
        raise NotStored(f"no name leads to {_words(obj)}")

    def at_a_path(self, obj: object, source: Source) -> Data:
        """An object without a name: the one on the path on which a guard finds it, told by its content."""
        place = self.path(source)
        if isinstance(obj, (CodeType, FunctionType)):
            self.found_on_paths[id(obj)] = obj, place
        return ["at", place, self.contents.at_a_path(obj)]

    def here(self, obj: object) -> Data:
        """An object as the one that a path leads to, if one does."""
        known = self._here.get(id(obj))
        return self.write(obj) if known is None else ["here", self.path(known[1]), _default(obj)]

    def learn(self, guards: Sequence[Guard], entered: Sequence[Entered]) -> None:
        """The objects that others are found by: to which a path leads, and classes."""
        functions = [function for _, function in entered if function is not None]
        named = [function.__globals__.get(name) for function in functions for name in function.__code__.co_names]
        self.names.classes.update((each, None) for each in named if isinstance(each, type))
        looked_into = {guard.source for guard in guards if guard.kind in (GuardKind.TYPE, GuardKind.EQUALS)}
        for guard in guards:
            if guard.kind is GuardKind.TYPE:
                self.names.classes[guard.payload[0]] = None
            elif guard.kind is GuardKind.IS and guard.source is not None:
                self._learn_path(guard.payload[0], guard.source, guard.source in looked_into)

    def _learn_path(self, obj: object, source: Source, looked_into: bool) -> None:
        if type(obj) is FunctionType and not any(_is_const(step, obj) for step in source.chain()):
            self._on_paths.setdefault(id(obj), (obj, source))
        by_path = _is_found_by_path(obj, looked_into)
        if by_path and not any(isinstance(step, ObjectKeySource) for step in source.chain()):
            self._here.setdefault(id(obj), (obj, source))

    # -- sources -----------------------------------------------------------------------------------------------------

    def path(self, source: Source) -> int:
        """The number of a source in the table, which its parents are in before it."""
        known = self._places.get(source)
        if known is None:
            kind = type(source).__name__
            if kind not in _SOURCES:
                raise NotStored(f"`{source.expression()}` is found by an object's identity")
            if isinstance(source, ConstSource):
                self.names.place(source.obj, source.name)
            row = [kind, *(self.write(getattr(source, name)) for name in _SOURCES[kind])]
            known = self._places[source] = len(self.paths)
            self.paths.append(row)
        return known

    # -- guards ------------------------------------------------------------------------------------------------------

    def guard(self, guard: Guard) -> Data:
        source = None if guard.source is None else self.path(guard.source)
        payload = _PAYLOADS.get(guard.kind, _each)(self, guard)
        return [source, guard.kind.value, payload, location_written(guard.location), guard.text]


def _is_const(source: Source, obj: object) -> bool:
    return isinstance(source, ConstSource) and source.obj is obj


def _is_found_by_path(obj: object, looked_into: bool) -> bool:
    """True if an object is relied on as the one that a path leads to, and all else that is relied on of it is guarded.

    Of objects of C's classes it may be the object itself that is relied on, with all that it is.
    """
    cls = type(obj)
    if cls in _BY_IDENTITY:
        return True
    return looked_into and (bool(cls.__flags__ & _MADE_IN_PYTHON) or cls in _CONTAINERS)


def _each(data: DataWriter, guard: Guard) -> list[Data]:
    return [data.write(each) for each in guard.payload]


def _items(data: DataWriter, guard: Guard) -> list[Data]:
    """The payload, of a set in an order of ours: whoever relied on its own has a guard of its own."""
    return [_set_written(data, each) if type(each) is frozenset else data.write(each) for each in guard.payload]


def _set_written(data: DataWriter, items: frozenset[object]) -> Data:
    written = [_set_written(data, each) if type(each) is frozenset else data.write(each) for each in items]
    return ["set", *sorted(written, key=json.dumps)]


def _identity(data: DataWriter, guard: Guard) -> list[Data]:
    """An object without a name is told by the path on which the guard finds it."""
    obj = guard.payload[0]
    if guard.source is None or type(obj) not in _AT_PATHS or data.is_found(obj):
        return [data.here(obj)]
    return [data.at_a_path(obj, guard.source)]


def _condition(data: DataWriter, guard: Guard) -> list[Data]:
    """Its program says all that its function does."""
    paths, program, _ = guard.payload
    return [data.write(each) for each in (paths, program, functools.partial(decided, paths, program))]


_PAYLOADS: dict[GuardKind, Callable[[DataWriter, Guard], list[Data]]] = {
    GuardKind.ITEMS: _items,
    GuardKind.EQUALS: _items,
    GuardKind.IS: _identity,
    GuardKind.CONDITION: _condition,
}
"""The kinds of guards whose payload is more than values to write."""


class DataReader:
    """Reads one version's values for a call."""

    def __init__(self, names: Sequence[object], rows: Sequence[Data], contents: Contents, inputs: Inputs) -> None:
        self.names = names
        self.contents = contents
        self.inputs = inputs
        self.paths: list[Source] = []
        self._texts: dict[int, str] = {}
        self._here: dict[int, int] = {}
        self._nodes: list[fx.Node] = []
        """The nodes of the question that is being read."""
        for kind, *fields in rows:
            named = dict(zip(_SOURCES[kind], map(self.read, fields), strict=True))
            self.paths.append(getattr(sources, kind)(**named))

    def read(self, data: Data) -> Any:
        if type(data) is str:
            return sys.intern(data)  # as the names in code are, and what dictionaries are asked for by
        if type(data) is not list:
            return data
        return _READERS[data[0]](self, *data[1:])

    def guard(self, data: Data) -> Guard:
        source, kind, payload, location, text = data
        found = None if source is None else self.paths[source]
        return Guard(found, GuardKind(kind), tuple(map(self.read, payload)), location_read(location), text)

    def refuse_hidden(self) -> None:
        """Refuses, once guards hold, where a module's own dictionary hides a parameter or submodule.

        Nobody hides one of a module that was called before, so no guard looks; before the first call somebody may
        have.
        """
        for path in self.paths:
            table = getattr(path, "parent", None)
            if isinstance(path, KeySource) and isinstance(table, KeySource) and table.key in _TABLES:
                own = table.parent.read(self.inputs) if isinstance(table.parent, DictSource) else {}
                if path.key in own and path.key in table.read(self.inputs):  # a path may lead to what is not there
                    raise NotStored(f"`{path.expression()}` is hidden by an attribute of its own")

    def _question(self, rows: Data, places: Sequence[int], output: Data, answer: bool) -> SameAnswer:
        graph = fx.Graph()
        self._nodes = [graph.placeholder(f"given_{place}") for place in range(len(places))]
        for op, target, args, kwargs in rows:
            called = target if op == "call_method" else self.read(target)
            named = {name: self.read(value) for name, value in kwargs}
            self._nodes.append(graph.create_node(op, called, self.read(args), named))
        graph.output(self.read(output))
        return SameAnswer(Question.about(graph, [self.paths[place] for place in places]), answer)

    def _text(self, number: int, text: str) -> str:
        """The one object for a text of this number: another one than any equal text."""
        return self._texts.setdefault(number, "".join(list(text)))

    def there(self, place: int) -> object:
        """The object on a path now."""
        source = self.paths[place]
        try:
            return source.read(self.inputs)
        except (LookupError, AttributeError, ValueError, TypeError):
            raise NotStored(f"there is no `{source.expression()}` now") from None

    def _which(self, place: int, default: Data) -> object:
        """Two that were two stay two."""
        source, found = self.paths[place], self.there(place)
        is_other = _default(found) != default
        if is_other or self._here.setdefault(id(found), place) != place:
            raise NotStored(f"`{source.expression()}` is another one than it was")
        return found

    def _at(self, place: int, content: str) -> object:
        source, found = self.paths[place], self.there(place)
        if type(found) not in _AT_PATHS or self.contents.at_a_path(found) != content:
            raise NotStored(f"`{source.expression()}` is another one than it was")
        return found


def _of_torch(_: DataReader, name: str) -> object:
    found = getattr(torch, name)
    if not isinstance(found, _OF_TORCH):
        raise NotStored(f"torch has no dtype or layout `{name}`")
    return found


_READERS: dict[str, Callable[..., Any]] = {
    "text": DataReader._text,
    "f": lambda _, text: float.fromhex(text),
    "c": lambda _, real, imaginary: complex(float.fromhex(real), float.fromhex(imaginary)),
    "b": lambda _, text: bytes.fromhex(text),
    "t": lambda reader, *items: tuple(map(reader.read, items)),
    "S": lambda reader, *items: torch.Size(map(reader.read, items)),
    "l": lambda reader, *items: list(map(reader.read, items)),
    "set": lambda reader, *items: frozenset(map(reader.read, items)),
    "slice": lambda reader, *parts: slice(*map(reader.read, parts)),
    "range": lambda _, *parts: range(*parts),
    "torch": _of_torch,
    "device": lambda _, text: torch.device(text),
    "constant": lambda _, text: {"Ellipsis": ..., "NotImplemented": NotImplemented}[text],
    "s": lambda reader, place: reader.paths[place],
    "p": lambda reader, function, args, named: functools.partial(
        reader.read(function), *reader.read(args), **dict(reader.read(named))
    ),
    "member": lambda reader, cls, name: reader.read(cls)[name],
    "n": lambda reader, place: reader.names[place],
    "at": lambda reader, place, content: reader._at(place, content),
    "bound": lambda reader, var, name: getattr(reader.read(var), name),
    "question": DataReader._question,
    "node": lambda reader, place: reader._nodes[place],
    "here": lambda reader, place, default: reader._which(place, default),
}


def location_written(location: Location | None) -> Data:
    return None if location is None else [location.filename, location.line, location.function]


def location_read(data: Data) -> Location | None:
    return None if data is None else Location(*data)


def _default(obj: object) -> Data:
    """The default of a ContextVar, which it is where nobody has set it, by content; of others the class."""
    if type(obj) is not ContextVar:
        return class_name(type(obj))
    try:
        return digest(Contents().shallow(Context().run(obj.get)))
    except LookupError:
        return ""


def _words(obj: object) -> str:
    name = getattr(obj, "__qualname__", None)
    return f"`{name}`" if isinstance(name, str) else f"an object of class `{class_name(type(obj))}`"
