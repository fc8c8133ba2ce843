"""One frame in, guarded code out.

The transformed code calls the compiled graph, makes the recorded effects real, and either returns or, where evaluation
had to stop, lets CPython run that one instruction and calls the rest of the function as a continuation, which is
captured in its turn:

    load the graph's inputs by their sources; call the graph; keep its results
    build what the rest needs; replay effects; enter contexts again
    return the value                  or      the instruction; return continuation(variables, stack)
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import CodeType
from typing import Any, Protocol

from torch import fx

from capture._engine import Outside
from capture.bytecode.assembler import assemble
from capture.bytecode.emitter import Emitter
from capture.bytecode.instructions import Instruction
from capture.bytecode.resume import Continuations, NotResumable
from capture.entry import kinds_of_values  # noqa: F401 - its parts write themselves into the tables
from capture.entry.earlier_ends import EarlierEnds
from capture.entry.graph_records import graph_record
from capture.entry.single_runs import numbers_that_vary, reason_of, remember_numbers, spares
from capture.entry.spent_histories import give_as_spent, insist_on_backward_once, spent_among
from capture.entry.translation import Translation
from capture.errors import BackendError, Location, SkipFrame, Unsupported, words_of
from capture.evaluator.assumptions import Learnt, Restart, Returned, SizesFixed, Stopped
from capture.evaluator.equal_calls.machine import machine_for
from capture.evaluator.idle_frames import Allowance, insist_on_some, leave_at_a_break, most_idle_steps, spend
from capture.evaluator.machine import Machine
from capture.guards.guard import Guard
from capture.guards.kinds import GuardKind
from capture.guards.sources import ArgSource, AttrSource, CallSource, ConstSource, Inputs
from capture.log import BreakRecord, Log, SingleRunRecord
from capture.options import Options
from capture.reasons import RAISES, Kind, Reason
from capture.recording import forward_mode, saved_tensors, shared_memory
from capture.recording.graph import GONE, quiet
from capture.recording.library_modes import modes_kept, with_modes_put_back
from capture.recording.library_state import library_state
from capture.recording.outer_checkpoints import RunTwice
from capture.recording.tensor_queries import rely_on_who_may_write
from capture.signals import HeldSignals
from capture.stored.code import Parts
from capture.values.base import Value, reachable, settled
from capture.values.held_locks import Locks
from capture.values.parameters import all_positional
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue
from capture.writing.breaks import Stop
from capture.writing.commit import Commit, LookedAt, Written, tell_loss
from capture.writing.lock_blocks import Holding
from capture.writing.own_effects import OwnChange, own_changes
from capture.writing.rebuild.contexts import enter_contexts
from capture.writing.restart import Failures, StartingOver, Unraised, run_the_frame
from capture.writing.results import Results
from capture.writing.writer import Writer, is_result

Backend = Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]


class Settings(Protocol):
    """The part of a configuration that translation needs."""

    backend: Backend
    log: Log
    continuations: Continuations
    options: Options
    signals: HeldSignals

    @property
    def nopython(self) -> bool: ...

    @property
    def leave_idle(self) -> bool: ...


def translate(
    settings: Settings, inputs: Inputs, learnt: Learnt, allowance: Allowance | None = None, again: bool = False
) -> Translation:
    """Evaluates a frame, compiles its graph, writes its code; where something is found out on the way, once more.

    What is found out is in the assumptions of the next evaluation: a dynamic size taken as fixed, a step that CPython
    has to take because what it makes cannot be made by our code, a check that would come too late.  ``again``: such
    a call came before, so that its graph is worth compiling whatever the frame writes.
    """
    started, hooked = time.perf_counter(), saved_tensors.innermost() is not None
    assumptions = learnt.assumptions
    with saved_tensors.not_shown():
        # Ends, as each restart assumes more than the one before: fewer constants, or one more stop.
        while True:
            insist_on_some(allowance)
            machine = machine_for(inputs, assumptions, settings.options, settings.signals)
            try:
                outcome = _evaluate(machine, allowance)
                translator = _Translator(settings, inputs, machine, learnt, started, hooked)
                translator.may_spare = not again and spares(settings.backend)
                return translator.translate(outcome, allowance)
            except Restart as restart:
                assumptions = restart.assumptions
                learnt.remember(assumptions)
            finally:
                learnt.defines_classes = learnt.defines_classes or bool(machine.defined)
                machine.balance()
                machine.let_go()


def _evaluate(machine: Machine, allowance: Allowance | None) -> Returned | Stopped:
    machine.stepper.most_idle = most_idle_steps(allowance)
    try:
        with quiet():
            return machine.run_root()
    finally:
        spend(allowance, machine.stepper.steps)


def _is_whole(outcome: Returned | Stopped) -> bool:
    """True if CPython would go on with nothing: the frame returned, or raised."""
    return isinstance(outcome, Returned) or outcome.reason.kind is Kind.EXCEPTION


class _Translator:
    """The writing of one frame's code, once its evaluation has ended.

    ``_finish`` has the order of the code: questions about other threads and clocks before all else; locks around the
    graph where something of it was under them; effects behind the graph, once, after all reads; contexts of torch
    again; then the return, or the instruction that stopped the evaluation.  Behind the last instruction are the ways
    on which something failed.
    """

    def __init__(
        self, settings: Settings, inputs: Inputs, machine: Machine, learnt: Learnt, started: float, hooked: bool
    ) -> None:
        self.settings = settings
        self.machine = machine
        self.learnt = learnt
        self.started = started
        self.hooked = hooked  # torch's own hooks on saved tensors are in force
        self.function = inputs.function
        self.code = inputs.function.__code__
        self.emit = Emitter()
        self.writer = Writer(self.code, self.emit)
        self.ends = EarlierEnds(machine, self.writer, self.code, settings.continuations, settings.nopython)
        self.graph: fx.GraphModule | None = None
        self.starting_over: StartingOver | None = None
        self.results: Results | None = None
        self.backends: Callable[..., object] | None = None  # callable, as it was given and as it is called
        self.called: Callable[..., object] | None = None
        self.broke: BreakRecord | None = None
        self.tell_loss: Callable[[], None] | None = None
        self.looked_at: LookedAt = []
        self.may_spare = False
        self.changes: list[OwnChange] = []
        self.location = Location(self.code.co_filename, self.code.co_firstlineno, self.code.co_qualname)

    def translate(self, outcome: Returned | Stopped, allowance: Allowance | None) -> Translation:
        """The translation; of a frame that computes no tensor only its guards."""
        machine = self.machine
        if isinstance(outcome, Stopped) and self.settings.nopython and outcome.reason.kind not in RAISES:
            raise Unsupported(outcome.reason, outcome.location)
        # Only counted where a size must not be a constant (``open_only``): past the limit of versions.
        if machine.fixed_sizes():
            raise SizesFixed
        if self.settings.leave_idle and not machine.graph.computes() and _is_whole(outcome):
            visited, entered = frozenset(machine.stepper.visited), tuple(machine.entered)
            return Translation(None, tuple(self.guards()), None, None, visited, entered=entered)
        # Pieces of a frame without tensors are not worth the way from one to the next.
        if isinstance(outcome, Stopped) and not machine.graph.computes():
            leave_at_a_break(allowance, outcome.reason)
        return self._finish(outcome)

    def _finish(self, outcome: Returned | Stopped) -> Translation:
        rest = None if isinstance(outcome, Returned) else self._plan(outcome)
        wanted = [outcome.value] if isinstance(outcome, Returned) else rest.values()  # type: ignore[union-attr]
        self.ends.insist_on_what_can_be_built(wanted, outcome)
        if isinstance(outcome, Stopped) and outcome.reason.kind in RAISES:
            rest.unraised = self._unraised(outcome)  # type: ignore[union-attr]
        self.emit.at(_first_with_a_line(self.machine.root.instructions))
        self.emit.prologue()  # cells of the root's own are variables like others here
        locks = self.machine.effects.locks
        holding = Holding(self.writer, locks)
        commit = self._commit()
        commit.begin()
        holds_over_graph = self._holds_over_graph(locks)
        self.ends.insist_on_clocks_at_the_ends(outcome)
        self.ends.insist_on_what_is_taken(outcome)
        self._read_clocks(early=True)
        with ExitStack() as held:
            if holds_over_graph:
                held.enter_context(holding.held())
            self._call_graph([*wanted, *self.machine.effects.written_values()], outcome)
            self._read_clocks(early=False)
            if not holds_over_graph:
                held.enter_context(holding.held())
            self._write_effects(wanted, commit)
        holding.settle()  # the locks are then as the program leaves them
        machine = self.machine
        enter_contexts(self.writer, machine.left_active, machine.grad_mode, machine.grad_mode_left)
        if rest is None:
            self.writer.load(wanted[0])
            self.emit.return_value()
        else:
            rest.write(self.writer)
        let_go = holding.let_go if holds_over_graph else lambda: None
        if self.starting_over is not None:
            self.starting_over.write(let_go)
        if self.results is not None:
            self.results.write(let_go)
        holding.write()
        commit.write(functools.partial(self._start_over_outdated, holding))
        if isinstance(outcome, Stopped):
            self._record_break(outcome)
        stopped = outcome if isinstance(outcome, Stopped) else None
        guards = tuple(self.guards())
        self._record_graph(guards)
        remember_numbers(self.learnt, self.changes)
        visited = frozenset(self.machine.stepper.visited)
        once, changed = self._runs_once, frozenset(change.source for change in self.changes)
        recheck, parts, entered, code = holding.recheck, self._parts(), tuple(self.machine.entered), self._assemble()
        known = self.graph, stopped, visited, recheck, once, changed, parts, entered, self.broke
        return Translation(code, guards, *known, *machine.of_other_processes())

    def _parts(self) -> Parts:
        over, results = self.starting_over, self.results
        return Parts(
            self.backends,
            self.called,
            None if over is None else over.failures,
            None if results is None else results.expected,
            frozenset() if over is None else frozenset(over.drawn_on),
            self.tell_loss,
            tuple(self.looked_at),
        )

    def _assemble(self) -> CodeType:
        # The engine passes every slot, also those of ``*args`` and ``**kwargs``.  The first constant is the docstring.
        template = all_positional(self.code)
        return assemble(
            self.emit.body(),
            template,
            co_varnames=template.co_varnames[: template.co_argcount],
            co_cellvars=(),
            co_consts=template.co_consts[:1],
        )

    # -- the graph -----------------------------------------------------------------------------------------------

    def _call_graph(self, wanted: Sequence[Value], outcome: Returned | Stopped) -> None:
        """Has the graph compiled, and writes the call of it, with all that may start the frame over."""
        machine = self.machine
        # A check that fails starts the frame over, and what the graph wrote by then cannot be taken back.
        if machine.checks and machine.graph.changes_an_input():
            machine.restart(cautious=True)
        results = _results_among([*wanted, *(value for value, _ in machine.checks)])
        if any(GONE in value.node.meta for value in results if isinstance(value, (TensorValue, SymbolicNumber))):
            raise SkipFrame(Reason(Kind.FUNCTION_TRANSFORM, "a tensor of a transformed function is used outside of it"))
        self.ends.insist_on_known_histories(results)
        spent = spent_among(results, machine.graph.used_up)
        if not self.settings.nopython:
            insist_on_backward_once(outcome, spent)
        self.ends.insist_on_leaves_of_its_own([v for v in results if isinstance(v, TensorValue) and v not in spent])
        # Before the last nodes: results are detached in the modes in which the graph began.
        machine.balance()
        if not machine.graph.operations:
            return
        # Before the backend is asked: it may be spared this graph, or evaluation restart with other symbols.
        self._look_at_own_changes()
        outputs = [_without_history(value) if value in spent else _node_of(value) for value in results]
        # An operator that may raise is no dead code: eager raises, whoever reads its result.
        unread = machine.graph.unread(outputs)
        outputs += unread
        module, sources = machine.graph.finish(outputs, f"Graph_{self.code.co_name}")
        self.graph = module
        examples = [*map(machine.graph.example, sources)]
        self._captured = time.perf_counter()
        compiled = self.called = self.ends.all_or_nothing(self._compile(module, examples), sources)
        self._compiled = time.perf_counter()
        self.writer.share(sources)
        with self._started_over_if_it_raises(compiled):
            # With capture off: what a backend's callable runs is none of the program's frames.
            self.emit.load_callable(Outside(RunTwice(compiled, sources) if self.hooked else compiled))
            with self.writer.reading_once(machine.graph.numbers()):
                for source in sources:
                    self.writer.load_source(source)
            self.emit.call(len(sources))
        self._keep_results(results, spent, len(unread))
        for value, truth in machine.checks:
            assert self.starting_over is not None
            self.starting_over.unless(value, truth)

    def _look_at_own_changes(self) -> None:
        """Finds the guards that the frame's own effects break, and the numbers that vary so."""
        machine = self.machine
        self.changes = own_changes(machine.effects.changed(), machine.guards.all())
        varying, symbols = numbers_that_vary(self.learnt, self.changes, self.settings.options)
        # In the place of a constant of this graph: it has to be recorded with symbols.
        if symbols:
            machine.restart(**varying)
        self.learnt.learn(**varying)

    @property
    def _runs_once(self) -> bool:
        return self.may_spare and bool(self.changes)

    def _holds_over_graph(self, locks: Locks) -> bool:
        """True if the locks are taken before the graph, which cannot simply be called again behind them."""
        graph = self.machine.graph
        if locks.read.intersection(graph.numbers()):
            return True
        return locks.over_graph(len(graph.nodes)) or graph.changes_an_input() or bool(graph.mode.drawn_on)

    def _started_over_if_it_raises(self, compiled: Callable[..., object]) -> AbstractContextManager[None]:
        """A context of code in which an error of the graph starts the frame over in CPython."""
        settings = self.settings
        failures = Failures(
            self.location,
            settings.log.add,
            self.learnt.be_cautious,
            handled=self.machine.handles_errors,
            strict=settings.options.strict,
            has_effects=bool(self.machine.effects.changed()) or self.machine.graph.changes_an_input(),
        )
        # It is asked whether an error of it is final.
        failures.graph = compiled
        if settings.continuations.original(self.code).is_continuation:
            failures.place = functools.partial(settings.continuations.raising, self.code)
        drawn_on = frozenset(self.machine.graph.mode.drawn_on)
        self.starting_over = StartingOver(self.writer, failures, drawn_on)
        return self.starting_over.around_the_graph()

    def _compile(self, module: fx.GraphModule, examples: list[object]) -> Callable[..., object]:
        """The backend's callable for the graph, or the graph as recorded for a single run."""
        if self._runs_once:
            return with_modes_put_back(module.forward, module)
        try:
            # A backend may leave modes switched, takes long, and traces with hooks of its own.
            with modes_kept(), self.settings.signals.let_through(), saved_tensors.new_ones_shown():
                compiled = self.settings.backend(module, examples)
        except Exception as error:  # a backend is anybody's code
            raise BackendError(
                f"the backend failed on a graph of {self.code.co_qualname}: {words_of(error)}"
            ) from error
        if not callable(compiled):
            raise BackendError(
                f"the backend gave {type(compiled).__name__}, which cannot be called, "
                f"for a graph of {self.code.co_qualname}"
            )
        self.backends = compiled
        return with_modes_put_back(compiled, module)

    def _keep_results(self, results: Sequence[Value], spent: Collection[Value], unread: int) -> None:
        """Takes the results apart, each into a local."""
        if not results:
            self.emit.pop()
            return
        self.results = Results(self.writer, len(results) + unread, self.settings.backend, self.code.co_qualname)
        self.results.unpack()
        for value in results:
            self.writer.keep(value, "result")
        self.emit.pop(unread)
        for value in results:
            if value in spent:
                assert isinstance(value, TensorValue)
                give_as_spent(self.writer, value, self.machine.tensors.values())
        for value in results:
            if isinstance(value, TensorValue) and value.written:
                self.writer.replay(value)

    # -- clocks ---------------------------------------------------------------------------------------------------

    def _read_clocks(self, *, early: bool) -> None:
        for reading in self.machine.effects.clocks:
            if early is (reading.recorded == 0):
                self.writer.call_const(reading.clock)
                self.writer.keep(reading, "clock")

    # -- effects ----------------------------------------------------------------------------------------------------

    def _commit(self) -> Commit:
        written, guards = Written(self.machine.effects.changed()), self.machine.guards.all()
        twice = not self.machine.graph.changes_an_input()
        tell = self.tell_loss = functools.partial(tell_loss, self.settings.log, self.location)
        commit = Commit(self.writer, written, guards, tell, twice=twice)
        self.looked_at = commit.looked_at
        return commit

    def _write_effects(self, wanted: Sequence[Value], commit: Commit) -> None:
        """Writes the effects: calls, then all that is read from paths, then the changes themselves."""
        effects = self.machine.effects
        if effects.calls:
            commit.look()
        self._make_calls()
        with commit.reading():
            self._load_before_changes(wanted, build=commit.asks)
        if not effects.calls:
            commit.look()
        for value in effects.changed():
            self.writer.replay(value)

    # -- around it -----------------------------------------------------------------------------------------------

    def _start_over_outdated(self, holding: Holding, label: Instruction) -> None:
        """Writes the way on which what was read has changed."""
        if self.starting_over is not None:
            self.starting_over.outdated(label, holding.let_go)
            return
        self.emit.place(label)
        holding.let_go()
        run_the_frame(self.writer)
        self.emit.return_value()

    def _make_calls(self) -> None:
        for function, operands in self.machine.effects.calls:
            self.emit.load_callable(function)
            self.emit.call(self.writer.load_all(operands))
            self.emit.pop()

    def _load_before_changes(self, wanted: Sequence[Value], *, build: bool) -> None:
        """Reads all that is read from paths before the paths change; ``build``: and makes what is new."""
        if not self.machine.effects:
            return
        for value in reachable([*wanted, *self.machine.effects.written_values()]):
            source = value.source
            # Arguments and constants stay what they are, whatever is written.
            if source is None or isinstance(source, (ArgSource, ConstSource)) or self.writer.is_kept(value):
                continue
            self.writer.load(value)
            self.writer.keep(value)
        for value in self.machine.effects.changed():
            if not self.writer.is_kept(value) and not isinstance(value.source, ArgSource):
                self.writer.load(value)
                self.writer.keep(value)
        # Where other threads are asked about, nothing may be built between the question and the writes: that takes
        # calls.
        for value in self.machine.effects.written_values() if build else ():
            if self.writer.makes(value):
                self.writer.load(value)
                self.writer.keep(settled(value).whole or settled(value))
        self.writer.forget_paths()

    # -- the rest of the function --------------------------------------------------------------------------------

    def _plan(self, stopped: Stopped) -> Stop:
        try:
            return Stop(self.machine.root, stopped, self.settings.continuations)
        except NotResumable as error:
            raise SkipFrame(Reason(Kind.RESUME, str(error))) from error

    # -- records -------------------------------------------------------------------------------------------------

    def guards(self) -> list[Guard]:
        """All guards of the code: what evaluation asked, and what every graph relies on."""
        self.machine.rely_on_separate_changes()
        rely_on_who_may_write(self.machine)
        guards = self.machine.guards.all()
        guards += self.machine.classes.guards(self.machine.defined.has)
        if self.machine.checks and self.starting_over is not None:
            source = AttrSource(ConstSource(self.starting_over.failures, "the code's checks"), "rare")
            guards.append(Guard(source, GuardKind.TRUE, (), self.location, "failures of the code's checks are rare"))
        for name, function in {**library_state(self.hooked), **self.machine.state_read}.items():
            path, now = CallSource(function, f"{name}()"), function()
            guards.append(Guard(path, GuardKind.EQUALS, (now,), self.location, f"{name}() is {now}"))
        guards += forward_mode.closed()
        try:
            guards += shared_memory.relied_on(self.machine.graph, self.machine.inputs, self.location)
        except shared_memory.Overlapping as error:
            self.machine.restart(written=self.machine.assumptions.written | error.sources)
        return guards + self.machine.graph.relations(self.location)

    def _unraised(self, stopped: Stopped) -> Callable[[], None]:
        # Kept by the code that is written, which is not to keep whose settings these are.
        return Unraised(self.settings.log, self.settings.nopython, BreakRecord(stopped.location, stopped.reason))

    def _record_break(self, stopped: Stopped) -> None:
        if stopped.reason.kind in RAISES:
            return
        record = self.broke = BreakRecord(stopped.location, stopped.reason)
        # A loop that was broken in comes here in every round, and steps its iterator: what broke it is on record.
        again = stopped.reason.kind is Kind.ITERATOR or record in self.settings.log.records()
        if not (again and self.settings.continuations.original(self.code).is_continuation):
            self.settings.log.add(record)

    def _record_graph(self, guards: Sequence[Guard]) -> None:
        if self.graph is None:
            return
        times = self._captured - self.started, self._compiled - self._captured
        self.settings.log.add(graph_record(self.location, self.graph, guards, times, self.machine.effects.changed()))
        if self._runs_once:
            self.settings.log.add(SingleRunRecord(self.location, reason_of(self.changes)))


def _without_history(value: Any) -> fx.Node:
    node: fx.Node = value.node
    return node.graph.call_method("detach", (node,))


def _node_of(value: Any) -> fx.Node:
    node: fx.Node = value.node
    return node


def _first_with_a_line(instructions: Sequence[Instruction]) -> Instruction:
    """The first instruction with a line: tools that format tracebacks stumble over frames without one."""
    return next((instruction for instruction in instructions if instruction.line is not None), instructions[0])


def _results_among(values: Sequence[Value]) -> list[Value]:
    return [value for value in reachable(values) if is_result(value)]
