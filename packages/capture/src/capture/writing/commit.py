"""Effects are written where what they were computed from is still there; else the frame starts over in CPython.

While a graph runs, and at many a call, CPython lets other threads run.  A list or a count that this frame read before,
and is about to write, may be another one by then, and what the other thread did would be lost:

    are there other threads?          asked before anything is read; where there are none, nothing else is asked
    read the inputs; call the graph
    make what is to be written        code of the program's may run here
    is what was read still there?     no: start over
    write                             from the question on no other thread runs

A graph that writes to tensors is not called twice.  It does not begin where something changed since the guards were
looked at; where something changes while it runs, that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from capture._engine import Guards, Uninterrupted, has_other_threads
from capture.bytecode.instructions import Instruction
from capture.errors import CaptureWarning, Location
from capture.guards.guard import Guard, to_spec
from capture.guards.kinds import RELATIONS, GuardKind
from capture.guards.sources import (
    AttrSource,
    CellSource,
    ClosureSource,
    Derived,
    DictSource,
    GlobalSource,
    ItemSource,
    KeySource,
    ObjectKeySource,
    Source,
    StorageSource,
)
from capture.informing import inform
from capture.log import FallbackRecord, Log
from capture.reasons import Kind, Reason
from capture.values.base import Value
from capture.values.classes import ClassValue
from capture.values.context_var import ContextVarValue
from capture.values.function import CellValue, NamespaceValue
from capture.values.lock import LockValue
from capture.values.parameters import all_positional, argument_names
from capture.values.tensor import TensorValue
from capture.values.user_object import UserObject
from capture.writing.restart import run_the_frame
from capture.writing.writer import Writer

LOST = Reason(
    Kind.SHARED_STATE,
    "another thread changed what this function read and writes, while a graph that writes to tensors ran: one of the "
    "changes is lost",
    "call the function under a lock",
)
LookedAt = list[tuple[Guards, tuple[Guard, ...]]]
"""The guards that the code asks the engine about, as the engine has them and as they were made."""
_OF_ONE_THREAD = (LockValue, ContextVarValue)
_STORED = (AttrSource, KeySource, ObjectKeySource, ItemSource, StorageSource)


def tell_loss(log: Log, location: Location) -> None:
    """Says, once for each place, that a change of another thread was lost."""
    record = FallbackRecord(location, LOST)
    if record not in log.records():
        log.add(record)
        inform(CaptureWarning(f"{location}: {LOST.explanation}; {LOST.hint}"), location)


class Written:
    """The places that a frame writes: attributes by their names, the whole of containers."""

    def __init__(self, changed: Sequence[Value]) -> None:
        self._attributes: dict[Source, Collection[str]] = {}
        self._containers: set[Source] = set()
        self._variables: set[Source] = set()
        for value in changed:
            if not isinstance(value, _OF_ONE_THREAD):
                self._note(value)

    def _note(self, value: Value) -> None:
        """Notes the places that the changes of one value are written to."""
        source = (value.whole or value).source
        if isinstance(value, NamespaceValue):
            self._variables.update(GlobalSource(name) for name in value.written)
        if source is None:
            return
        if isinstance(value, CellValue):
            # A cell of the function itself is read by two paths: as a cell and as a variable.
            if isinstance(source, CellSource):
                self._variables.add(ClosureSource(source.index, source.name))
            self._attributes[source] = ("cell_contents",)
        elif isinstance(value, UserObject):
            self._attributes[source] = {*value.overlay, *value.deleted}
        elif isinstance(value, (ClassValue, TensorValue)):
            self._attributes[source] = value.written
        else:
            self._containers.add(source)

    def holds(self, source: Source) -> bool:
        """True if what this path leads to is kept in one of the places."""
        if source in self._variables:
            return True
        if not isinstance(source, _STORED) or not isinstance(source, Derived):
            return False
        # Of a container any item counts, as items may have moved.
        parent = source.parent
        if parent in self._containers:
            return True
        # An attribute, read as such or from the object's ``__dict__``.
        owner = parent.parent if isinstance(parent, DictSource) else parent
        return owner in self._attributes and _name(source) in self._attributes[owner]

    def is_told_by(self, guard: Guard) -> bool:
        """True if the guard tells whether what was there has changed."""
        if guard.kind in RELATIONS or guard.source is None:
            return False
        return self.holds(guard.source) or (guard.source in self._containers and guard.kind is not GuardKind.TYPE)


def _name(source: Source) -> object:
    return source.name if isinstance(source, AttrSource) else getattr(source, "key", None)


def _is_of_what_is_gone(error: BaseException) -> bool:
    """True for an error of a path that another thread may have taken away."""
    return isinstance(error, (LookupError, AttributeError, NameError)) and has_other_threads()


class Commit:
    """Writes the questions into the code of one frame."""

    def __init__(
        self,
        writer: Writer,
        written: Written,
        guards: Sequence[Guard],
        tell_loss: Callable[[], None],
        *,
        twice: bool,
    ) -> None:
        """``twice``: the graph may be called again."""
        self.writer = writer
        self.twice = twice
        self.outdated = writer.emit.label()
        self._written = written
        asked = (guard for guard in guards if twice or guard.kind is not GuardKind.TENSOR)  # which the graph writes to
        self._guards = [guard for guard in asked if written.is_told_by(guard)]
        self.looked_at: LookedAt = []
        # The local that says whether there were other threads at the beginning.
        self._others = ""
        # What was read from places that will be written, and the local that holds it: identity is compared with what is
        # there.
        self._read: dict[Source, str] = {}
        self._unbegun = writer.emit.label()
        self._lost: tuple[Instruction, Instruction] | None = None
        self._missing: Instruction | None = None
        self._tell_loss = tell_loss

    @property
    def asks(self) -> bool:
        """True if what is to be written depends on what was there."""
        return bool(self._guards)

    def begin(self) -> None:
        """Writes the question whether there are other threads, before anything is read."""
        if not self.asks:
            return
        emit, self._others = self.writer.emit, self.writer.fresh("others")
        # CPython lets another thread run only at certain instructions; a call by a subscript is none of them
        # (``Uninterrupted``).
        emit.load_uninterrupted(has_other_threads)
        emit.call_uninterrupted(0)
        emit.store_fast(self._others)
        # The graph cannot be taken back: looked at before it, too.
        if not self.twice:
            self._look(self._unbegun)
        self.writer.watch(self._note)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A context of reads: what is not found any more where another thread was is no error of the program's."""
        if not self.asks or not self.twice:
            yield
            return
        # Reading a path that another thread took away raises; the handler then starts over, where there are other
        # threads.
        self._missing = self.writer.emit.label()
        with self.writer.emit.handled_by(self._missing, 0):
            yield

    def look(self) -> None:
        """Writes the question whether all is as it was, before anything is written."""
        if not self.asks:
            return
        self.writer.watch(None)
        changed = self.writer.emit.label()
        go_on = self._look(self.outdated if self.twice else changed)
        if not self.twice:
            self._lost = changed, go_on

    def write(self, start_over: Callable[[Instruction], None]) -> None:
        """Writes the ways on which something has changed, behind the last instruction."""
        if not self.asks:
            return
        emit = self.writer.emit
        if self._missing is not None:
            self._write_missing(self._missing)
        if self._lost is None:
            start_over(self.outdated)
            return
        # The graph has not run yet: CPython may run the frame.
        emit.place(self._unbegun)
        run_the_frame(self.writer)
        emit.return_value()
        changed, go_on = self._lost
        # It has, and cannot run again: the loss is told, and the code goes on.
        emit.place(changed)
        emit.load_callable(self._tell_loss)
        emit.call(0)
        emit.pop()
        emit.jump(go_on)

    def _write_missing(self, missing: Instruction) -> None:
        emit, gone, interrupted = self.writer.emit, self.writer.emit.label(), self.writer.emit.label()
        emit.place(missing)
        # As CPython's own handlers begin and end; an error of another kind is raised again.
        emit.emit("PUSH_EXC_INFO")
        with emit.handled_by(interrupted, 1, lasti=True):
            emit.load_callable(_is_of_what_is_gone)
            emit.copy(3)
            emit.call(1)
            emit.jump_if_true(gone)
            emit.swap(2)
        emit.emit("POP_EXCEPT")
        emit.emit("RERAISE", 0)
        emit.place(gone)
        emit.pop()
        emit.emit("POP_EXCEPT")
        emit.jump(self.outdated)
        emit.put_back_handled(interrupted)

    def _look(self, otherwise: Instruction) -> Instruction:
        """Writes the question, which jumps to `otherwise` where the answer is no; gives the label behind it."""
        emit, code = self.writer.emit, self.writer.code
        holds = emit.label()
        emit.load_fast(self._others)
        emit.jump_if_false(holds)
        guards = Guards(*to_spec(self._guards))
        self.looked_at.append((guards, tuple(self._guards)))
        emit.load_uninterrupted(Uninterrupted(guards.check))
        if code.co_freevars:
            emit.build_closure(code.co_freevars)
        # Guards are asked with a function and its arguments, as the engine asks them: one is made with this frame's
        # cells.
        emit.make_function(all_positional(code), closure=bool(code.co_freevars))
        names = argument_names(code)
        for name in names:
            emit.load_fast(name)
        emit.build_tuple(len(names))
        emit.call_uninterrupted(2)
        emit.jump_if_false(otherwise)
        # Guards know kinds and values: another thread may have put an equal object there.
        for source, name in self._read.items():
            self.writer.load_anew(source)
            emit.load_fast(name)
            emit.compare("is")
            emit.jump_if_false(otherwise)
        emit.place(holds)
        return holds

    def _note(self, source: Source) -> None:
        """Keeps the object on top, which was read from there, where that place is written."""
        if source not in self._read and self._written.holds(source):
            name = self._read[source] = self.writer.fresh("read")
            self.writer.emit.copy()
            self.writer.emit.store_fast(name)
