"""The symbolic interpreter: the world in which one frame of the user's program is evaluated, with whatever it calls.

The machine answers what ``World`` asks: it opens frames for calls, makes the values of objects, and keeps what is
relied on.  Instructions are run by its ``Stepper``; where the root has to be left is for its ``Stops`` to know.  An
evaluation ends with the root's return value or with the instruction where CPython has to take over.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any, NoReturn

import torch

from capture.bytecode.instructions import slot_names
from capture.errors import Break, Location, SkipFrame, UserRaised
from capture.evaluator.assumptions import Assumptions, Restart, Returned, Stopped
from capture.evaluator.builtin_rules.assumed import assumed_result, is_assumed
from capture.evaluator.builtin_rules.dispatch import call_builtin, has_rule_for
from capture.evaluator.builtin_rules.left_to_python import leave_to_python
from capture.evaluator.builtin_rules.torch_functions import is_operation
from capture.evaluator.builtin_rules.transforms import transform_of
from capture.evaluator.decisions import decided_by_arguments
from capture.evaluator.expectations import Expectations, add_expectation
from capture.evaluator.foreign_marks import is_torchs_own
from capture.evaluator.frame import Frame
from capture.evaluator.frame_queries import may_handle_an_error
from capture.evaluator.stepper import Stepper
from capture.evaluator.stepping import STEPPED
from capture.evaluator.stops import Stops
from capture.evaluator.suspension import made_by_a_call, resume, throw_into
from capture.evaluator.trial_runs import recorded_region, rehearsed, repeatable
from capture.evaluator.wrap import skip_frame_of_metaclass, wrap_object
from capture.guards.guard import Guard, GuardSet, of_formula
from capture.guards.kinds import GuardKind
from capture.guards.layouts import OpenLayout
from capture.guards.sources import (
    ArgSource,
    AttrSource,
    CallSource,
    CellSource,
    ClosureSource,
    ConstSource,
    FormulaSource,
    Inputs,
    Source,
    may_be_dynamic,
)
from capture.options import Options
from capture.origins import is_installed
from capture.reasons import Kind, Reason
from capture.recording.graph import GraphRecorder
from capture.recording.operations import record_operation
from capture.signals import HeldSignals
from capture.torch_versions import disable_dynamo, set_grad_enabled
from capture.values.asked import Asked
from capture.values.base import LazyValue, Value, realize
from capture.values.class_guards import ReliedClasses
from capture.values.constant import NONE, UNBOUND, ConstantValue, boolean
from capture.values.context import TorchContext
from capture.values.dicts_of_objects import DictsOfObjects
from capture.values.effects import Effects
from capture.values.exception import ExceptionValue
from capture.values.finalizers import require_quiet_change
from capture.values.function import CellValue, FunctionValue, NamespaceValue
from capture.values.generator import SuspendableValue
from capture.values.identity import MetObjects, SearchedKeys
from capture.values.made_class import DefinedClasses, MadeClass
from capture.values.mapping import DictValue
from capture.values.parameters import bind_arguments
from capture.values.sequence import ListValue, SliceValue, TupleValue
from capture.values.tensor import TensorValue

_SIMPLE = (int, float, complex, bool, str, bytes, type(None), type(...), type(NotImplemented))
# Compared by value: that two paths lead to one such object says nothing.
_BY_VALUE = frozenset({*_SIMPLE, torch.dtype, torch.device, torch.layout, torch.memory_format, range, frozenset})
# Torch hides some of its own functions from its own compiler; here they are like any others.
_DISABLED_FOR_DYNAMO = disable_dynamo(lambda: None).__code__ if disable_dynamo else None
_SUSPENDABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Machine:
    """One evaluation of one root frame; ``let_go`` ends it."""

    def __init__(self, inputs: Inputs, assumptions: Assumptions, options: Options, signals: HeldSignals) -> None:
        self.inputs = inputs
        self.options = options
        self.assumptions = assumptions
        self.graph = GraphRecorder(symbolic=assumptions.symbolic)
        self.guards = GuardSet()
        self.effects = Effects()
        self.tensors: dict[int, TensorValue] = {}
        self.left_active: list[TorchContext] = []
        self.grad_mode = self.grad_mode_left = torch.is_grad_enabled()
        self._balanced = False
        self._met = MetObjects(inputs)
        self._dicts = DictsOfObjects()
        self.keys = SearchedKeys()
        self.classes = ReliedClasses(lambda: self.location() if self.frames else None)
        self.stepper = Stepper(self, signals)
        self.stops = Stops(self)
        self.of_this_process: list[str] = []  # the reasons for which no other process may take the version up
        self.asked: list[Asked] = []  # what was asked once for all calls
        self.tables: list[object] = []  # dicts of libraries that were looked at as a whole
        self._take_from_parts()
        self.checks: Expectations = []  # what was expected: to be asked after the graph
        self.leaves: list[torch.Tensor] = []  # made within the graph, with a gradient of their own
        self.state_read: dict[str, Callable[[], object]] = {}  # of torch's; what it was at the beginning is relied on
        self.handles_errors = False  # of operations, anywhere in the program
        self.defined = DefinedClasses()
        self.entered: list[tuple[CodeType, FunctionType | None]] = []  # what was run besides the root
        self.root = self._open_root()

    def _take_from_parts(self) -> None:
        """Makes methods of its parts its own, for whatever the world is asked for and one of them answers."""
        stepper, stops = self.stepper, self.stops
        self.frames: list[Frame] = stepper.frames
        self.run, self.unwind = stepper.run, stepper.unwind
        self.commit, self.note_origin, self.before = stops.commit, stops.note_origin, stops.before
        self.stop_before, self.stop_at, self.stop_earlier = stops.stop_before, stops.stop_at, stops.stop_earlier
        self.restart = stops.restart
        self.rely_on_member, self.varies = self.classes.add_name, self.of_this_process.append
        self.asked_once = self.asked.append

    # -- the root ------------------------------------------------------------------------------------------------

    def _open_root(self) -> Frame:
        """The frame of the captured function: arguments and cells are sources, and nobody has looked at them yet."""
        function, args = self.inputs.function, self.inputs.args
        code = function.__code__
        names = slot_names(code.co_varnames, code.co_cellvars, code.co_freevars)
        slots: dict[str, Value] = {}
        for index, arg in enumerate(args):
            slots[names[index]] = LazyValue(arg, ArgSource(index, names[index]))
        cells = [
            self._root_cell(i, name, cell)
            for i, (name, cell) in enumerate(zip(code.co_freevars, function.__closure__ or (), strict=True))
        ]
        slots.update(zip(code.co_freevars, cells, strict=True))
        namespace = self.namespace(function.__globals__, None, trusted=False)
        value = FunctionValue(code, namespace, closure=cells, qualname=function.__qualname__)
        return Frame(self, value, self.stepper.body(code), slots)

    def _root_cell(self, index: int, name: str, cell: Any) -> CellValue:
        try:
            content: Value = LazyValue(cell.cell_contents, ClosureSource(index, name))
        except ValueError:
            self.guard(ClosureSource(index, name), GuardKind.ABSENT)
            content = UNBOUND
        value = CellValue(content, CellSource(index, name))
        self._met.remember(cell, value)
        return value

    def run_root(self) -> Returned | Stopped:
        """Evaluate the root frame until it returns or has to stop."""
        return self.stepper.run_root(self.root, self.stops)

    def balance(self) -> None:
        """End the graph with the library's state as it was at the start; remembers what the program left switched."""
        if self._balanced:
            return
        self._balanced = True
        self.grad_mode_left = torch.is_grad_enabled()
        self.left_active = list(self.effects.contexts)
        for context in reversed(self.left_active):
            context.leave(self.graph)
            self.effects.leave(context)
        if torch.is_grad_enabled() != self.grad_mode:
            self.graph.switch(set_grad_enabled, self.grad_mode)

    def let_go(self) -> None:
        """Forget the program's objects at once: there are cycles here, and a collection may be far off."""
        self.root.let_go()
        self.stepper.let_go()
        self.stops.let_go()
        self.effects.let_go()
        self._met.forget()
        self._dicts.let_go()
        self.graph.mode.remembered = None  # which knows the mode
        for kept in (self.tensors, self.defined, self.classes):
            kept.clear()
        vars(self).clear()  # values that are made of one another know who made them

    # -- calls ---------------------------------------------------------------------------------------------------

    def call(self, function: Value, args: Sequence[Value], kwargs: Mapping[str, Value] | None = None) -> Value:
        return realize(self, function).call(self, args, kwargs or {})

    def call_builtin(self, function: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return call_builtin(self, function, args, kwargs)

    def inline(self, function: FunctionValue, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        # The order counts: a rule knows more of a function than its code says, and neither wrappers of torch's nor what
        # the program left to Python or declared constant are to be entered.
        real = function.real
        if real is not None:
            if has_rule_for(self, real, args) or is_operation(real):
                return call_builtin(self, real, args, kwargs)
            if (transform := transform_of(self, function)) is not None:
                return self.call(transform, args, kwargs)
            if is_torchs_own(real):
                return self._call_wrapped(function, args, kwargs)
            leave_to_python(self, real)
            if is_assumed(real):
                return assumed_result(self, real, args, kwargs)
        # From here on the call has begun, and an instruction that stops inside of it cannot be taken back as a whole.
        self.commit()
        code = function.code
        if code is _DISABLED_FOR_DYNAMO or code in STEPPED:
            return self._call_wrapped(function, args, kwargs)
        self._rely_on_code(function)
        self.entered.append((code, function.real))
        slots = bind_arguments(self, function, args, kwargs)
        slots.update(zip(code.co_freevars, function.closure, strict=True))
        frame = Frame(self, function, self.stepper.body(code), slots)
        kind = made_by_a_call(self, code) if code.co_flags & _SUSPENDABLE else None
        if kind is not None:
            # Calling it runs nothing: the frame waits until somebody asks the generator for a value.
            made = kind(frame, (function, list(args), dict(kwargs)))
            frame.generator = made
            self.stops.note_suspendable(made)
            self.stepper.forgotten.note(made)
            return made
        self.stepper.forgotten.note_call(frame, (*args, *kwargs.values()))
        result = self.run(frame)
        assert result is not None
        return result

    def run_class_body(self, function: FunctionValue, names: DictValue) -> Value:
        """Runs a class statement's body: as a call, but that variables live in ``names``, which become attributes."""
        self.commit()
        self.entered.append((function.code, function.real))
        closure = dict(zip(function.code.co_freevars, function.closure, strict=True))
        frame = Frame(self, function, self.stepper.body(function.code), {**closure}, names)
        result = self.run(frame)
        assert result is not None
        return result

    def stand_for(self, obj: object, value: Value) -> None:
        self._met.remember(obj, value)
        if isinstance(value, MadeClass):
            self.defined.add(value)
            self.note_origin(value)

    def _rely_on_code(self, function: FunctionValue) -> None:
        """Relies on the code of a function, but for installed packages.

        What reloads a module under development gives its functions new code.
        """
        source, installed = function.source, is_installed(function.code)
        if source is not None and not installed and not isinstance(source, ConstSource):
            self.guard(AttrSource(source, "__code__"), GuardKind.IS, function.code)

    def _call_wrapped(self, wrapper: FunctionValue, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        """Calls the function in a wrapper of torch's, which only its compiler is to respect, or of ours for steps."""
        hidden = realize(self, wrapper.closure[wrapper.code.co_freevars.index("fn")])
        return self.call(hidden.attribute(self, "cell_contents"), args, kwargs)

    def resume(self, suspended: SuspendableValue, sent: Value) -> Value | None:
        return resume(self, suspended, sent)

    def throw_into(self, suspended: SuspendableValue, raised: UserRaised, *, closes: bool = True) -> Value | None:
        return throw_into(self, suspended, raised, closes=closes)

    def attempt(self, function: Value, *caught: type[BaseException]) -> Value | None:
        try:
            return self.call(function, [])
        except UserRaised as raised:
            if issubclass(raised.value.python_type(), caught):
                return None
            raise

    def record(self, target: Any, args: Sequence[Value], kwargs: Mapping[str, Value], *, method: bool = False) -> Value:
        self.handles_errors = self.handles_errors or any(map(may_handle_an_error, self.frames))
        return record_operation(self, target, args, kwargs, method=method)

    # -- objects -------------------------------------------------------------------------------------------------

    def wrap(self, obj: Any, source: Source) -> Value:
        if self.defined.lead_to(source):
            # Nothing can be relied on of a class that exists during the evaluation alone: the next call makes another.
            return self.literal(obj)
        skip_frame_of_metaclass(self, obj, source)
        # Before anything is remembered: equal numbers at two places are no sign that both are one object.
        if type(obj) in _BY_VALUE and not isinstance(source, ConstSource):
            return wrap_object(self, obj, source)
        # Two paths to one object are one value, or a write by one would be missed by the other.  That both still lead
        # to one object is relied on.
        # An object that is met on a path as well is that value; else a path is made up, which begins at the object.
        known = self._met.find(obj)
        if known is None and type(obj) is dict:
            known = self._dicts.view(self, obj)
        if known is not None:
            self._met.rely_on_one_object(self, known, obj, source)
            return known
        value = wrap_object(self, obj, source)
        self._met.remember(obj, value)
        self._dicts.meet(self, obj, value)
        self.classes.add(obj if issubclass(type(obj), type) else type(obj))
        if isinstance(value, TensorValue):
            self.tensors[id(value.fake)] = value
        return value

    def literal(self, obj: Any) -> Value:
        """The value of an object to which no path leads, so that nothing is guarded.

        An object that is no plain data is found as the one that it is.
        """
        cls = type(obj)
        if obj is None:
            return NONE
        if cls is bool:
            return boolean(obj)
        if cls in _SIMPLE:
            return ConstantValue(obj)
        if cls is tuple or cls is torch.Size:
            return TupleValue([self.literal(item) for item in obj], cls=cls)
        if cls is slice:
            return SliceValue(*(self.literal(part) for part in (obj.start, obj.stop, obj.step)))
        if cls is list:
            return ListValue([self.literal(item) for item in obj])
        if cls is dict:
            made = DictValue()
            made.entries = {key: (self.literal(key), self.literal(item)) for key, item in obj.items()}
            return made
        if cls in (CodeType, torch.finfo, torch.iinfo):
            return ConstantValue(obj)
        known = self._met.find(obj)
        return known if known is not None else self.wrap(obj, ConstSource(obj, _name(obj)))

    def namespace(self, contents: dict[str, Any], source: Source | None, *, trusted: bool) -> NamespaceValue:
        """The value of a module's globals, one for all functions that share them."""
        known = self._met.find(contents)
        if isinstance(known, NamespaceValue):
            return known
        made = NamespaceValue(contents, source, trusted=trusted)
        if known is not None:  # as the `__dict__` of its module
            self._dicts.join(self, made, known)
        self._met.remember(contents, made)
        return made

    def known(self, obj: object) -> Value | None:
        return self._met.find(obj)

    def open_layout(self, source: Source, tensor: torch.Tensor) -> OpenLayout:
        layout = self.assumptions.layout_of(source, tensor)
        # Fakes with symbols need a graph that has had an environment of shapes from its first tensor on.
        if layout and self.graph.shape_env is None:
            raise Restart(self.assumptions.with_layout(source, layout))
        return layout

    def is_dynamic(self, source: Source) -> bool:
        return source in self.assumptions.ints and may_be_dynamic(source)

    def need_symbols(self) -> None:
        """Restarts the evaluation with symbols for sizes of data, where the user wants such sizes in a graph."""
        if self.graph.shape_env is None and self.options.capture_dynamic_output_shapes:
            self.restart(data_sizes=True)

    def fixed_sizes(self) -> int:
        return self.graph.fixed_sizes() if self.assumptions.open_only else 0

    def is_dynamic_float(self, source: Source) -> bool:
        return source in self.assumptions.floats

    def made_leaf(self, fake: torch.Tensor) -> None:
        """Notes a leaf that was made in the graph; breaks the graph before it where CPython is to make those."""
        if self.assumptions.leaves_outside:
            # The instruction is taken back, but not what it did to the fake, which was there before.
            fake.requires_grad_(False)
            hint = "it is made as in eager; the rest of the function is captured"
            self.stop(Kind.AUTOGRAD, "a tensor that later code wants the gradient of is made", hint)
        self.leaves.append(fake)

    def keep_leaves_outside(self) -> NoReturn:
        """Restarts the evaluation with leaves made outside of the graph."""
        self.restart(leaves_outside=True)

    # -- bookkeeping ---------------------------------------------------------------------------------------------

    def guard(self, source: Source | None, kind: GuardKind, *payload: Any, text: str = "") -> None:
        # An object that outlives every frame cannot differ in a later call; that something is not there may.
        if (isinstance(source, ConstSource) and kind is not GuardKind.ABSENT) or self.defined.lead_to(source):
            if kind is GuardKind.KEYS and isinstance(source, ConstSource):
                self.tables.append(source.obj)
            return
        # No path leads to a number that is computed: the guard is about those that it is computed from.
        if isinstance(source, FormulaSource):
            text, payload = text or f"{source.expression()} is {payload[0]!r}", of_formula(source, kind, payload[0])
            source, kind = None, GuardKind.RELATION
        if kind is GuardKind.TENSOR:
            payload = (payload,)
        if self.guards.has(source, kind, payload):
            return
        self.guards.add(Guard(source, kind, payload, self.location() if self.frames else None, text))

    def of_other_processes(self) -> tuple[tuple[str, ...], tuple[Asked, ...], tuple[object, ...], bool]:
        """All that matters to another process alone."""
        return tuple(self.of_this_process), tuple(self.asked), tuple(self.tables), self.assumptions.varies

    def is_one_object(self, left: Value, right: Value) -> bool:
        return self._met.is_one_object(self, left, right)

    def rely_on_separate_changes(self) -> None:
        """Relies on each changed object being none of the others of its type.

        Writes through one path were not seen on another.
        """
        self._met.rely_on_separate(self, self.effects.changed())
        self._dicts.rely_on_separate(self, self.effects.changed())

    def rehearsal(self, given: Sequence[Value]) -> AbstractContextManager[None]:
        return rehearsed(self, self.frames, given)

    def repeatable(self, given: Sequence[Value]) -> AbstractContextManager[None]:
        return repeatable(self, self.frames, given)

    def region(self, passed: Sequence[Value], options: Mapping[str, Any]) -> AbstractContextManager[None]:
        return recorded_region(self, self.frames, passed, options)

    def decide(self, value: Value) -> bool | None:
        assert isinstance(value, TensorValue)
        if self.graph.transforms:
            return None
        return decided_by_arguments(self, value.node, self.graph.inputs, self.inputs)

    def expect(self, value: Value, truth: bool) -> bool:
        unwanted = self.assumptions.cautious or self.graph.transforms or not self.options.capture_scalar_outputs
        if unwanted or not add_expectation(self, self.checks, value, truth):
            return False
        self.handles_errors = self.handles_errors or any(map(may_handle_an_error, self.frames))
        return True

    def changed(self, value: Value) -> None:
        # What came before relied on the value to stay: evaluation restarts, and stops where that began.
        if value in self.effects.final:
            self.stop_earlier(self.effects.final[value])
        self._dicts.before_a_change(self, value)
        require_quiet_change(self, value)
        self.stops.note_change()
        self.effects.note(value)

    def location(self) -> Location:
        """The user's line: the innermost frame outside of torch and the standard library."""
        for frame in reversed(self.frames):
            if not frame.function.namespace.trusted:
                return frame.location()
        return self.frames[-1].location()

    def local_variables(self) -> dict[str, Value]:
        """The variables that are bound, without the slots that continuations keep their stack in."""
        frame, found = self.frames[-1], {}
        if frame.names is not None:
            self.stop(Kind.CLASS, "the body of a class looks at its own variables")
        code = frame.code
        for name in dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars)):
            value = frame.slots.get(name, UNBOUND)
            if name in code.co_cellvars or name in code.co_freevars:
                value = realize(self, value)  # a continuation is given the cell itself, which nothing has read yet
            content = value.content if isinstance(value, CellValue) else value
            if content is not UNBOUND and not name.startswith(".stack"):
                found[name] = content
        return found

    def leave_frame(self, kind: Kind, explanation: str) -> NoReturn:
        # A frame within the root cannot be left alone: the graph ends at its call, unless someone would look for
        # variables in frames that are not there.
        if len(self.frames) == 1 or any(frame.reads_variables() for frame in self.frames):
            raise SkipFrame(Reason(kind, explanation))
        self.stop(kind, explanation)

    def in_library(self) -> bool:
        asking = self.frames[-1].function
        return asking.namespace.trusted or is_installed(asking.code)

    def handled(self) -> Value | None:
        if (handled := self.handled_here()) is not None:
            return handled
        self.rely_on_no_handler()
        return None

    def rely_on_no_handler(self) -> None:
        # None of the frames that are evaluated handles one, so it is the caller's: its like comes with every call.
        if sys.exc_info()[1] is not None:
            self.stop(Kind.EXCEPTION_VALUE, "the exception that the caller handles is asked for")
        self.guard(CallSource(sys.exc_info, "sys.exc_info()"), GuardKind.EQUALS, (None, None, None))

    def throw(self, cls: type[BaseException], *args: Any) -> NoReturn:
        """Raises in the program, with the exception that is being handled as its context, as Python does."""
        made = ExceptionValue(cls, [arg if isinstance(arg, Value) else self.literal(arg) for arg in args])
        made.raise_while(self, self.handled_here())
        raise UserRaised(made)

    def handled_here(self) -> Value | None:
        return next((frame.handling[-1] for frame in reversed(self.frames) if frame.handling), None)

    def stop(self, kind: Kind, explanation: str, hint: str = "") -> NoReturn:
        self.stop_for(Reason(kind, explanation, hint))

    def stop_for(self, reason: Reason) -> NoReturn:
        # Who is called here and reads the variables of its caller finds all of them in a frame of CPython's alone.
        if any(frame.reads_variables() and not frame.function.namespace.trusted for frame in self.frames[1:]):
            by = "by what may read the variables of its caller (`f_locals`)"
            explained = replace(reason, explanation=f"{reason.explanation}, {by}")
            raise SkipFrame(explained, location=self.location())
        # Not by way of a variable: the exception would keep this frame, and the frame the exception.
        raise Break(reason, self.location())


def _name(obj: object) -> str:
    return getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None) or f"a {type(obj).__name__}"
