"""A machine that finds equal calls of modules, and does again what the first of them did.

The first call of a class is evaluated.  Of the next one a tape is taken.  Where a later call is given the same, and all
that the tape tells of the module holds for the other one as well, its events are done again: objects are met and relied
on where the other module has them, and operations recorded on the other's tensors.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn

import torch

from capture.errors import InternalError, Location
from capture.evaluator.assumptions import Assumptions
from capture.evaluator.equal_calls.facts import of_fake
from capture.evaluator.equal_calls.fitting import Fitting, SeenObjects
from capture.evaluator.equal_calls.paths import Paths, Refused
from capture.evaluator.equal_calls.recipes import Recipe, Watching, done_again
from capture.evaluator.equal_calls.tape_recorder import TapeRecorder, leads_to
from capture.evaluator.equal_calls.tapes import (
    Guarded,
    Known,
    Recorded,
    Same,
    Slots,
    Tape,
    Wrapped,
    built,
    given_shapes,
    shape_of,
)
from capture.evaluator.frame_queries import may_handle_an_error
from capture.evaluator.machine import Machine
from capture.guards.kinds import GuardKind
from capture.guards.sources import ConstSource, Inputs, Source
from capture.options import Options
from capture.recording.graph import memory_of
from capture.recording.histories import note_view
from capture.recording.operations import insist_on_room
from capture.signals import HeldSignals
from capture.torch_versions import is_view
from capture.values.base import Value, reachable, realize
from capture.values.constant import ConstantValue
from capture.values.function import FunctionValue, NamespaceValue
from capture.values.mapping import DictValue
from capture.values.module import ModuleValue
from capture.values.tensor import TensorValue

_MOST_TAPES = 6  # of a class


def machine_for(inputs: Inputs, assumptions: Assumptions, options: Options, signals: HeldSignals) -> Machine:
    """The machine for these options."""
    kind = MachineOfEqualCalls if options.equal_calls else Machine
    return kind(inputs, assumptions, options, signals)


class MachineOfEqualCalls(Machine):
    """A `Machine` that takes tapes of calls and does equal calls again; to everyone else it is one."""

    def __init__(self, *args: Any) -> None:
        self._recorders: list[TapeRecorder] = []
        self._within = 0  # what is an event by itself, or is never one
        self._place: Location | None = None  # of the event that is done again
        self._epoch = 0  # how often something changed that a call may look at
        self._changed: set[int] = set()  # what was made here and changed since the epoch was asked for
        self._sights: collections.Counter[type] = collections.Counter()
        self._tapes: dict[type, list[Tape]] = {}
        self.done_again = 0
        super().__init__(*args)

    def _take_from_parts(self) -> None:
        super()._take_from_parts()
        self._seen = SeenObjects(self._met)
        self._fitting = Fitting(self._seen, self.is_dynamic_float)
        self._note_origin = self.note_origin
        self.note_origin = self._note_origin_of

    # -- calls ---------------------------------------------------------------------------------------------------

    def call(self, function: Value, args: Sequence[Value], kwargs: Mapping[str, Value] | None = None) -> Value:
        function = realize(self, function)
        if type(function) is ModuleValue and self._may_be_equal(function):
            return self._module_called(function, args, kwargs or {})
        return function.call(self, args, kwargs or {})

    def _may_be_equal(self, module: ModuleValue) -> bool:
        """True if the call of a module is one that a tape could tell of."""
        if module.source is None or module.overlay or module.deleted or module._view is not None or self._within:
            return False
        busy = self.graph.shape_env is not None or self.graph.transforms or self.effects.locks.is_holding()
        return not (busy or self.assumptions.one_by_one or self.keys.has_some() or self.defined)

    def _module_called(self, module: ModuleValue, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        """The result of a module's call: done again by a tape that fits, else evaluated."""
        cls, obj = module.cls, module.obj
        self._sights[cls] += 1
        # The first call of a class meets what is outside of all of them: its tape would fit no other.
        if self._sights[cls] == 1:
            return module.call(self, args, kwargs)
        assert module.source is not None
        tape = Tape(Paths(module.source, obj), Slots(), (), self._state())
        tape.slots.add(module)
        try:
            if self._seen.has_tables_of(obj):
                raise Refused
            outside = [value for value in (*args, *kwargs.values()) if not isinstance(value, TensorValue)]
            # An argument that leads to the module, or holds it, is not the same for another module.
            if leads_to(outside, tape):
                raise Refused
            tape.given_memories = frozenset(memory_of(v.fake) for v in tape.slots.values if isinstance(v, TensorValue))
            tape.given = (
                *given_shapes(args, kwargs, tape.slots),
                self._shared(tape.slots),
                tuple(fact for _, fact in tape.outside.values()),
            )
        except Refused:
            return module.call(self, args, kwargs)
        tapes = self._tapes.setdefault(cls, [])
        for known in reversed(tapes):
            paths = self._fitting.paths(known, tape)
            if paths is not None:
                if self.options.verify_equal_calls:
                    return self._verified(known, tape, module, args, kwargs)
                return self._done_again(known, tape, paths)
        # So many kinds of calls that one more is unlikely to be met again.
        if len(tapes) >= _MOST_TAPES:
            return module.call(self, args, kwargs)
        result, recorder = self._taken(tape, module, args, kwargs)
        if not recorder.refused:
            tapes.append(tape)
        return result

    def _shared(self, slots: Slots) -> tuple[object, ...]:
        """The tensors among the arguments that lie in one memory, or in that of the graph's inputs."""
        memories = [memory_of(value.fake) for value in slots.values if isinstance(value, TensorValue)]
        shared = self.graph.inputs_over
        return tuple((memory if memory in shared else None, memories.index(memory)) for memory in memories)

    def _state(self) -> tuple[object, ...]:
        """All that a call may go by besides its module and its arguments."""
        caller = self.frames[-1]
        autocast = tuple((torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda"))
        modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype(), autocast
        handling = any(frame.handling for frame in self.frames)
        contexts = *map(Same, self.effects.contexts), len(self.effects.calls), len(self.effects.clocks)
        return self._epoch_now(), modes, handling, contexts, caller.code, Same(caller.function.namespace)

    def _counts(self) -> tuple[object, ...]:
        """Counts of all that a call leaves alone if it can be done again."""
        graph, effects = self.graph, self.effects
        of_graph = len(graph.readers), len(graph.used_up), len(graph.reentrant), len(graph.lost_histories)
        regions = len(graph.regions._calls), graph.spoilt, graph.transforms, len(graph.views), len(graph.views_known)
        done = len(effects.calls), len(effects.clocks), len(effects.taken), len(effects.locks.holds()), bool(effects)
        open_ones = len(self.stops._suspended), len(self.checks), len(self.leaves), bool(self.defined)
        return of_graph, regions, done, open_ones, self.keys.has_some(), self._epoch_now(), self.left_active[:]

    def _node_count(self) -> int:
        return len(self.graph.graph.nodes) if "graph" in vars(self.graph) else 0

    # -- recording tapes -------------------------------------------------------------------------------------------

    def _taken(
        self, tape: Tape, module: ModuleValue, args: Sequence[Value], kwargs: Mapping[str, Value]
    ) -> tuple[Value, TapeRecorder]:
        """The result of evaluating a call, with the tape that was taken of it."""
        recorder = TapeRecorder(tape, len(self.frames), self._seen.shares_memory)
        counts, nodes = self._counts(), self._node_count()
        self._recorders.append(recorder)
        try:
            result = realize(self, module.call(self, args, kwargs))
        finally:
            self._recorders.remove(recorder)
        recorder.finish(result)
        if counts != self._counts() or nodes + recorder.added != self._node_count():
            recorder.refuse("something else happened")
        try:
            again = Slots()
            again.add(module)
            if given_shapes(args, kwargs, again)[:2] != tape.given[:2]:
                recorder.refuse("its arguments changed")
            modules = [value for value in tape.slots.values if isinstance(value, ModuleValue)]
            if any(self._seen.has_tables_of(each.obj) for each in modules):
                recorder.refuse("the tables of a module are looked at")
        except Refused:
            recorder.refuse("its arguments changed")
        return result, recorder

    @contextmanager
    def _event(self) -> Iterator[None]:
        """A context in which all that happens is one event for those who take tapes."""
        before = self._node_count()
        self._within += 1
        try:
            yield
        finally:
            self._within -= 1
        for recorder in self._recorders:
            recorder.added += self._node_count() - before

    def _tell(self, tell: Any) -> None:
        for recorder in self._recorders:
            if not recorder.refused:
                try:
                    tell(recorder)
                except Refused:
                    recorder.refuse("a path or a value")

    def _refuse(self, why: str) -> None:
        for recorder in self._recorders:
            recorder.refuse(why)

    def _place_within(self, recorder: TapeRecorder) -> Location | None:
        if self._place is not None:
            return self._place
        for frame in reversed(self.frames[recorder.depth :]):
            if not frame.function.namespace.trusted:
                return frame.location()
        return None

    def location(self) -> Location:
        return self._place if self._place is not None else super().location()

    def wrap(self, obj: Any, source: Source) -> Value:
        if self._within or not self._recorders:
            return self._wrapped(obj, source)
        known = self._met.find(obj)
        with self._event():
            value = self._wrapped(obj, source)
        # Each path to a constant makes a value of its own: that its object was met says nothing.
        if isinstance(value, ConstantValue):
            known = None
        self._tell(lambda recorder: recorder.wrapped(obj, source, value, known))
        return value

    def _wrapped(self, obj: Any, source: Source) -> Value:
        known = self._met.find(obj)
        value = super().wrap(obj, source)
        if known is None and isinstance(value, TensorValue) and self._seen.add_memory(obj):
            self._refuse("tensors share memory")
        return value

    def known(self, obj: object) -> Value | None:
        value = super().known(obj)
        if value is not None and self._recorders and not self._within:
            self._tell(lambda recorder: _insist_on_another(recorder, value))
        return value

    def literal(self, obj: Any) -> Value:
        value = super().literal(obj)
        if self._recorders and not self._within and not isinstance(value, ConstantValue):
            self._tell(lambda recorder: _insist_on_another(recorder, value))
        return value

    def inline(self, function: FunctionValue, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        if self._recorders and not self._within and (function.closure or function.function is None):
            held = [getattr(cell, "content", cell) for cell in function.closure]
            self._tell(lambda recorder: _insist_on_others(recorder, held))
        return super().inline(function, args, kwargs)

    def guard(self, source: Source | None, kind: GuardKind, *payload: Any, text: str = "") -> None:
        if self._recorders and not self._within:
            given = (payload,) if kind is GuardKind.TENSOR else payload
            new = not (self.guards.has(source, kind, given) or isinstance(source, ConstSource))
            self._tell(lambda t: t.guarded(source, kind, payload, text, self._place_within(t), new))
        super().guard(source, kind, *payload, text=text)

    def record(self, target: Any, args: Sequence[Value], kwargs: Mapping[str, Value], *, method: bool = False) -> Value:
        if self._within or not self._recorders:
            return super().record(target, args, kwargs, method=method)
        args = [realize(self, value) for value in args]
        kwargs = {name: realize(self, value) for name, value in kwargs.items()}
        operands: dict[int, Any] = {}

        def look(recorder: TapeRecorder) -> None:
            if any(map(may_handle_an_error, self.frames[recorder.depth :])):
                recorder.refuse("errors are handled")
            operands[id(recorder)] = recorder.operands(args, kwargs)

        self._tell(look)
        # All operations within the event are this one's: the tape has the outermost.
        watching = Watching(self.graph)
        with self._event():
            result = super().record(target, args, kwargs, method=method)
        recipe = watching.recipe(result)
        self._tell(lambda t: t.recorded(target, method, operands[id(t)], result, self._place_within(t), recipe))
        return result

    # -- what no tape can tell -----------------------------------------------------------------------------------

    def changed(self, value: Value) -> None:
        super().changed(value)
        if value.source is not None or isinstance(value, (TensorValue, NamespaceValue)):
            self._epoch += 1
        else:
            self._changed.add(id(value))

    def _epoch_now(self) -> int:
        """The number of changes so far that a call may come upon.

        What exists only here may hang on what existed before.  Where it hung there when it changed and no longer does,
        something on the way to it has changed, too.
        """
        # By numbers alone: kept alive, a generator would not end where it is let go.  Another value with the number of
        # one that is gone counts as a change, which costs a tape and no more.
        changed, self._changed = self._changed, set()
        if (
            changed
            and self.effects
            and any(id(each) in changed for each in reachable(list(self.effects.written_values())))
        ):
            self._epoch += 1
        return self._epoch

    def _note_origin_of(self, value: Value) -> None:
        if not isinstance(value, TensorValue):
            self._refuse("what has an origin is made")
        self._note_origin(value)

    def is_one_object(self, left: Value, right: Value) -> bool:
        if self._recorders and not (_is_plain(left) or _is_plain(right)):
            self._tell(lambda recorder: _insist_on_others(recorder, [left, right], apart=True))
        return super().is_one_object(left, right)

    def decide(self, value: Value) -> bool | None:
        self._refuse("a tensor is decided about")
        return super().decide(value)

    def expect(self, value: Value, truth: bool) -> bool:
        self._refuse("something is expected of data")
        return super().expect(value, truth)

    def run_class_body(self, function: FunctionValue, names: DictValue) -> Value:
        self._refuse("a class is made")
        return super().run_class_body(function, names)

    def handled(self) -> Value | None:
        self._refuse("the handled exception is asked for")
        return super().handled()

    def local_variables(self) -> dict[str, Value]:
        self._refuse("variables are listed")
        return super().local_variables()

    def rehearsal(self, given: Sequence[Value]) -> AbstractContextManager[None]:
        return self._alone(super().rehearsal(given))

    def repeatable(self, given: Sequence[Value]) -> AbstractContextManager[None]:
        return self._alone(super().repeatable(given))

    def region(self, passed: Sequence[Value], options: Mapping[str, Any]) -> AbstractContextManager[None]:
        return self._alone(super().region(passed, options))

    @contextmanager
    def _alone(self, trial: AbstractContextManager[None]) -> Iterator[None]:
        """A trial run, within which every call is evaluated."""
        self._refuse("there is a trial run")
        self._within += 1
        try:
            with trial:
                yield
        finally:
            self._within -= 1

    def let_go(self) -> None:
        self._tapes.clear()
        self._recorders.clear()
        super().let_go()

    # -- doing it again ------------------------------------------------------------------------------------------

    def _done_again(self, known: Tape, tape: Tape, paths: Paths) -> Value:
        """Does the events of the tape again, on the paths and tensors of this call."""
        slots, outer = tape.slots, self._place
        self.commit()
        self.done_again += 1
        # The callers' handlers see errors of these operations, too: a restart after one has to know.
        self.handles_errors = self.handles_errors or any(map(may_handle_an_error, self.frames))
        try:
            for event in known.events:
                self._place = outer
                if isinstance(event, Guarded):
                    self._place = event.location or outer
                    self.guard(paths.sources[event.path], event.kind, *event.payload, text=event.text)
                elif isinstance(event, Wrapped):
                    value = self.wrap(paths.objects[event.path], paths.sources[event.path])
                    self._insist_on_the_same_value(event, value, slots)
                # Whoever takes a tape is to be told of the operation, which the graph alone does not tell.
                elif event.recipe is None or self._recorders:
                    self._place = event.location or outer
                    self._record_again(event, slots)
                else:
                    self._place = event.location or outer
                    self._repeat(event.recipe, known.slots, slots)
        finally:
            self._place = outer
        return built(known.result, slots.values, self.literal)

    def _repeat(self, recipe: Recipe, first: Slots, slots: Slots) -> None:
        """Puts a node into the graph again, by its recipe.

        Not while a tape is taken: who takes it would have to be told what the node gives.
        """
        insist_on_room(self)
        try:
            value = done_again(recipe, first.nodes, slots.values, self.graph)
        except Refused:
            self._give_up(f"{recipe.node.target} gives something else")
        if id(value.fake) in self.tensors:
            self._give_up(f"{recipe.node.target} gives what was there")
        value.node.meta["location"] = self.location()
        self.tensors[id(value.fake)] = value
        note_view(self, value.fake, one_of_several=False)
        if value.fake.requires_grad and is_view(value.fake):
            self.note_origin(value)
        slots.add(value)

    def _record_again(self, event: Recorded, slots: Slots) -> None:
        """Records an operation once more, on this call's operands."""
        args = [built(shape, slots.values, self.literal) for shape in event.args]
        kwargs = {name: built(shape, slots.values, self.literal) for name, shape in event.kwargs}
        result = self.record(event.target, args, kwargs, method=event.method)
        facts: list[object] = []
        try:
            same = shape_of(result, slots, facts) == event.result and tuple(facts) == event.facts
        except Refused:
            same = False
        if not same:
            self._give_up(f"{event.target} gives something else")

    def _insist_on_the_same_value(self, event: Wrapped, value: Value, slots: Slots) -> None:
        """Makes sure that what was met is the value that the tape has in this place."""
        if event.slot == len(slots.values):
            slots.add(value)
        else:
            if event.slot > len(slots.values) or slots.values[event.slot] is not value:
                self._give_up("another object is met")
            return
        if isinstance(event.fact, tuple):
            kind = TensorValue if event.fact[0] is Known else event.fact[0]
            fake = isinstance(value, TensorValue) and of_fake(value.fake) != event.fact[2]
            if type(value) is not kind or fake:
                self._give_up("an object of another kind is met")

    def _give_up(self, why: str) -> NoReturn:
        """Starts the evaluation of the frame again, call by call: it is too late to evaluate only this one."""
        if self.options.verify_equal_calls:
            raise InternalError(f"a call was no equal one after all: {why}")
        self.restart(one_by_one=True)

    # -- the other way, to see that both come to the same --------------------------------------------------------

    def _verified(
        self, known: Tape, tape: Tape, module: ModuleValue, args: Sequence[Value], kwargs: Mapping[str, Value]
    ) -> Value:
        """The result of evaluating a call that would be done again, whose own tape has to be the same."""
        result, recorder = self._taken(tape, module, args, kwargs)
        what = f"the call of {module.describe()} was to be an equal one"
        if recorder.refused:
            raise InternalError(f"{what}, but {recorder.refused}")
        if recorder.outside:
            raise InternalError(f"{what}, but relies on {recorder.outside} more things outside of it")
        if known.account() != tape.account():
            raise InternalError(f"{what}, but {_difference(known, tape)}")
        self.done_again += 1
        return result


def _difference(known: Tape, tape: Tape) -> str:
    for one, other in zip(known.events, tape.events, strict=False):
        if one != other:
            return f"{other} stands where {one} stood"
    return f"has {len(tape.events)} events, not {len(known.events)}; {tape.result}, not {known.result}"


def _is_plain(value: Value) -> bool:
    return isinstance(value, ConstantValue) and value.source is None


def _insist_on_another(recorder: TapeRecorder, value: Value) -> None:
    slot = recorder.tape.slots.of(value)
    if slot is not None and slot != 0 and value.source is not None:
        return  # met on the way, and found by what it is
    if leads_to([value], recorder.tape):
        raise Refused


def _insist_on_others(recorder: TapeRecorder, values: Sequence[Value], *, apart: bool = False) -> None:
    if leads_to(values, recorder.tape):
        raise Refused
