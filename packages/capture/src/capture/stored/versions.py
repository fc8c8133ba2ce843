"""A version of a frame as bytes, and back: the one place that knows the format.

    compile-api capture 3           which format
    told | open                     whether sizes or numbers are open in it
    <sha256 of all that follows>    checked before anything else is read
    {"names": ..., "sources": ..., "guards": ..., "code": ..., "graph": ..., ...}

The body is JSON without objects of Python: no loading runs code of its own accord.  The code in it is run when a call
fits its guards, so whoever can write to the store can run code: that holds for the graph's kernels as well.
Must not know where bytes are kept, nor by which key.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType

from capture.bytecode.resume import Continuations
from capture.errors import Location
from capture.guards.guard import Guard
from capture.guards.sources import Inputs, Source
from capture.log import BreakRecord, Log
from capture.stored.code import (
    CodeReader,
    CodeWriter,
    Parts,
    called_read,
    called_written,
    record_read,
    record_written,
)
from capture.stored.contents import Contents, NotStored
from capture.stored.data import Data, DataReader, DataWriter
from capture.stored.names import names_read
from capture.stored.reach import Entered, reach, reached
from capture.values.asked import Asked
from capture.writing.commit import tell_loss
from capture.writing.restart import Failures, left_to_cpython
from capture.writing.results import Expected

_HEADS = {varies: b"compile-api capture 3\n%b\n" % (b"open" if varies else b"told") for varies in (False, True)}
_DIGITS = 64


@dataclass(frozen=True, slots=True)
class Made:
    """A version as evaluation made it."""

    code: CodeType | None
    guards: tuple[Guard, ...]
    parts: Parts
    entered: tuple[Entered, ...]
    operators: int
    places: frozenset[int]
    """The instructions of the original that it stands for."""
    broke: BreakRecord | None
    breaks: bool
    changed: frozenset[Source]
    """The sources that it relies on and that its own effects change."""
    once: bool = False
    """It ran as it was recorded, and was not compiled: the call that it fits is CPython's, wherever it comes."""
    asked: tuple[Asked, ...] = ()
    """The questions that were put to functions that remember their answers."""
    tables: tuple[object, ...] = ()
    """The dicts of libraries that were looked at as a whole."""
    varies: bool = False
    """Sizes or numbers are open in it."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A version as it was read: all that the engine and the records are told of it."""

    code: CodeType | None
    guards: tuple[Guard, ...]
    operators: int
    places: frozenset[int]
    broke: BreakRecord | None
    breaks: bool
    changed: frozenset[Source]
    once: bool


@dataclass(frozen=True, slots=True)
class Around:
    """The objects of the process that takes a version up, to which the version is tied."""

    backend: object
    continuations: Continuations
    log: Log
    be_cautious: Callable[[], None]
    strict: bool
    nopython: bool


def written(made: Made, function: FunctionType, backend: object, continuations: Continuations) -> bytes:
    """The bytes of a version; raises ``NotStored`` where some part of it has no stored form."""
    frame, contents = function.__code__, Contents()
    # One table of names and sources for all parts: written last, when all have asked.
    data = DataWriter(contents)
    data.learn(made.guards, made.entered)
    data.names.whole = frozenset(map(id, made.tables))
    guards = [data.guard(guard) for guard in made.guards]
    root = continuations.original(frame).code
    parts = made.parts
    body: dict[str, Data] = {
        "guards": guards,
        "code": None if made.code is None else CodeWriter(data, frame, parts, continuations).write(made.code),
        "graph": None if parts.compiled is None else _described(backend, parts.compiled),
        "called": None if parts.compiled is None else called_written(parts),
        "failures": None if parts.failures is None else parts.failures.handled,
        "expected": None if parts.expected is None else _fields(parts.expected),
        "function": [frame.co_filename, frame.co_firstlineno, frame.co_qualname],
        "operators": made.operators,
        "places": sorted(made.places),
        "breaks": made.breaks,
        "changed": sorted(map(data.path, made.changed)),
        "once": made.once,
        "broke": None if made.broke is None else record_written(made.broke),
        "asked": [[*map(data.write, (each.function, each.args, each.kwargs, each.answer))] for each in made.asked],
    }
    # The functions are found by name, and named in the table: so the table of names comes last.
    body["entered"], body["entered_at"] = reached(made.entered, root, data.found_on_paths, data.names)
    at_paths = {place: each for each, place in data.found_on_paths.values()}
    functions = [function, *(data.names.objects[place] for place in body["entered"])]
    functions += [at_paths[place] for place in body["entered_at"]]
    body |= {"reach": reach(functions, contents), "names": data.names.rows, "sources": data.paths}
    text = json.dumps(body, separators=(",", ":")).encode()
    return _HEADS[made.varies] + hashlib.sha256(text).hexdigest().encode() + b"\n" + text


def _described(backend: object, compiled: object) -> Data:
    describe = getattr(backend, "describe", None)
    found = None if describe is None else describe(compiled)
    if found is None:
        raise NotStored("the backend has no stored form of its graph")
    return found


def _fields(expected: Expected) -> Data:
    return [expected.backend, expected.function, expected.count]


# -- back ----------------------------------------------------------------------------------------------------------


def varies(data: bytes) -> bool:
    """True if sizes or numbers are open in a version: of those that fit a call, one without may do more."""
    return data.startswith(_HEADS[True])


def opened(data: bytes) -> dict[str, Data]:
    """The body; raises ``NotStored`` for bytes that are not as they were written."""
    head = _HEADS[varies(data)]
    digest_at = len(head) + _DIGITS
    if not data.startswith(head) or data[digest_at : digest_at + 1] != b"\n":
        raise NotStored("it is not of this format")
    text = data[digest_at + 1 :]
    if hashlib.sha256(text).hexdigest().encode() != data[len(head) : digest_at]:
        raise NotStored("its bytes are not those that were written")
    found: dict[str, Data] = json.loads(text)
    return found


@dataclass(frozen=True, slots=True)
class Summary:
    """A stored version in short: its function, and how much it holds."""

    function: Location
    operators: int
    guards: int


def summary_of(data: bytes) -> Summary:
    """The summary of a stored version; raises ``NotStored`` where the bytes are not those of a version."""
    body = opened(data)
    return Summary(Location(*body["function"]), body["operators"], len(body["guards"]))


class Reading:
    """One stored version, read in two steps: the guards first, and the rest only if they hold."""

    def __init__(self, data: bytes, inputs: Inputs, contents: Contents) -> None:
        self.body = opened(data)
        self.inputs = inputs
        names = names_read(self.body["names"], contents)
        self.data = DataReader(names, self.body["sources"], contents, inputs)
        if reach(self._entered(names), contents) != self.body["reach"]:
            raise NotStored("what its functions reach by names is another thing than it was")
        self.guards = tuple(map(self.data.guard, self.body["guards"]))

    def _entered(self, names: Sequence[object]) -> list[object]:
        """The functions that were entered; one that is not there is another one than it was."""
        named = [names[place] for place in self.body["entered"]]
        return [self.inputs.function, *named, *map(self.data.there, self.body["entered_at"])]

    def rest(self, around: Around) -> Taken:
        """The version, once its guards hold: the backend takes up its graph, and the code is made."""
        self.data.refuse_hidden()
        self._ask_again()
        body, frame = self.body, self.inputs.function.__code__
        compiled = None if body["graph"] is None else _taken_up(around.backend, body["graph"])
        called = None if compiled is None else called_read(compiled, body["called"])
        failures, expected, log = self._failures(around, called), self._expected(), around.log
        tell = functools.partial(tell_loss, log, self._where())
        parts = Parts(compiled, called, failures, expected, tell_loss=tell, log=log, nopython=around.nopython)
        code = left_to_cpython(frame) if body["once"] else None
        if body["code"] is not None:
            code = CodeReader(self.data, frame, parts, around.continuations).read(body["code"])
        broke = None if body["broke"] is None else record_read(body["broke"])
        changed = frozenset(self.data.paths[place] for place in body["changed"])
        places, ends = frozenset(body["places"]), (broke, body["breaks"])
        return Taken(code, self.guards, body["operators"], places, *ends, changed, body["once"])

    def _ask_again(self) -> None:
        for row in self.body["asked"]:
            asked = Asked(*map(self.data.read, row))
            if not asked.is_answered_alike():
                raise NotStored(f"`{asked.function.__qualname__}` gives another answer than it did")

    def _where(self) -> Location:
        code = self.inputs.function.__code__
        return Location(code.co_filename, code.co_firstlineno, code.co_qualname)

    def _failures(self, around: Around, called: Callable[..., object] | None) -> Failures | None:
        handled = self.body["failures"]
        if handled is None:
            return None
        code = self.inputs.function.__code__
        # Whether effects follow is not stored: a checkpoint that ends the graph early runs the frame for them then.
        made = Failures(
            self._where(),
            around.log.add,
            around.be_cautious,
            handled=handled,
            strict=around.strict,
            has_effects=True,
        )
        made.graph = called
        if around.continuations.original(code).is_continuation:
            made.place = functools.partial(around.continuations.raising, code)
        return made

    def _expected(self) -> Expected | None:
        fields = self.body["expected"]
        return None if fields is None else Expected(*fields)


def _taken_up(backend: object, data: Data) -> Callable[..., object]:
    take_up = getattr(backend, "take_up", None)
    found: Callable[..., object] | None = None if take_up is None else take_up(data)
    if not callable(found):
        raise NotStored("the backend does not take up its graph here")
    return found
