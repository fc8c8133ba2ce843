"""Forward and backward recorded as one functional graph, in a single run.

The program runs once on functional tensors over fakes, under autograd.  What it did to its inputs is then known, so
tangents are added for exactly the outputs that can be differentiated, and autograd runs backward into the same graph.
Must not know: how the graph is split, compiled or called.

In this order, which matters: the inputs are presented as leaves, or as tensors with a history; the program runs; what
it did is analysed; what cannot be done is refused; the forward outputs are read; tangents are added; autograd runs
backward.  A refusal is an ``Unsupported``, upon which the graph runs eagerly.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.fx.immutable_collections import immutable_list

from aotgrad.autograd_graph.missing_gradients import (
    ANSWERS,
    reached_by,
)
from aotgrad.autograd_graph.result_levels import Stage
from aotgrad.autograd_graph.saved_inputs import numbered_versions
from aotgrad.autograd_graph.saved_tensors import Behind
from aotgrad.errors import FailsOnFakes, Unsupported, words_of
from aotgrad.facts import Facts, OfResult
from aotgrad.pre_autograd.rules import EarlyRules
from aotgrad.quiet import reworded
from aotgrad.recording.lost_writes import BY_STRIDES, refuse_overlapping, refuse_windows
from aotgrad.recording.own_functions import has_a_program_run
from aotgrad.recording.recorder import Decompositions, Recorder
from aotgrad.roles import AliasBase, Gradient, OutputRole, Primal, Result, ResultSize, Size, Tangent, UpdatedInput
from aotgrad.tensors import functional
from aotgrad.tensors.symbols import size_hint
from aotgrad.torch_versions import (
    FakeTensorMode,
    enable_python_dispatcher,
    version_of,
)
from aotgrad.tracing.analyse import Analysis, TracedInput, analyse
from aotgrad.tracing.inputs import GraphInput, Signature
from aotgrad.tracing.presented import arguments, present, without_data
from aotgrad.tracing.recorded_backward import Stops, backward, refuse_functions_that_see_missing_gradients
from aotgrad.tracing.refused import ON_VALUES, depends_on_values, place_of
from aotgrad.tracing.written_views import refuse_written_views


@dataclass(frozen=True, slots=True)
class JointGraph:
    """One graph of forward and backward.  Placeholders carry their role in `meta["role"]`.

    Outputs, in this order: new data of mutated inputs, results, sizes, gradients.  ``followed``: autograd follows some
    of what the caller gets, whether or not gradients were asked for.  ``dynamic``: sizes may be symbols.  ``stages``:
    what goes back apart from the rest, where that is more than one.
    """

    graph: fx.Graph
    root: torch.nn.Module
    facts: Facts
    outputs: tuple[OutputRole, ...]
    followed: bool = False
    dynamic: bool = False
    stages: tuple[Stage, ...] = ()
    behind: tuple[Behind, ...] = ()  # each differentiable output

    @property
    def trains(self) -> bool:
        """True if autograd shall follow something that the caller gets, though the gradient of every input may be
        none."""
        return any(isinstance(role, Gradient) or getattr(role, "differentiable", False) for role in self.outputs)

    @property
    def values(self) -> Sequence[Any]:
        """The values that the graph returns, parallel to `outputs`."""
        returned: immutable_list[Any] = self.graph.output_node().args[0]
        return returned


BoundProgram = Callable[[Recorder, Sequence[Any]], Sequence[Any]]


@has_a_program_run
def trace_joint(
    program: BoundProgram, signature: Signature, *, decompositions: Decompositions, training: bool
) -> JointGraph:
    """The joint graph of `program`, run once in the caller's grad mode; `training` records its backward too."""
    recorder = Recorder(signature.fake_mode, decompositions)
    inputs = _placeholders(recorder, signature.inputs)
    with _tracing(recorder):
        recorder.until_traced.callback(recorder.histories.close)
        for entry, given in zip(inputs, signature.inputs, strict=True):
            present(entry, given, training)
            if training and given.view and not entry.value.is_inference():
                recorder.watched.add(entry.value)
        if training:
            recorder.until_traced.enter_context(numbered_versions(_alone_in_memory(inputs)))
            recorder.histories.leaves.update(entry.node for entry in inputs if entry.tracked or entry.within)
        for entry in inputs:
            if isinstance(entry.value, torch.Tensor):
                if entry.history is not None:
                    recorder.arrived[entry.history] = entry.value
                # Follows every change of layout in place (``pre_autograd/rules``).
                recorder.layouts[id(entry.value)] = entry.layout = without_data(entry.fake)
                entry.version = None if entry.value.is_inference() else version_of(entry.value)
        # Whatever was taken while the inputs were made is none of the program's.
        recorder.taken.clear()
        with _warnings_with_size_hints(inputs):
            outputs = _run(program, recorder, arguments(signature, inputs))
        analysis = analyse(recorder, inputs, outputs, training=training)
        refuse_overlapping(inputs[index].fake for index in analysis.facts.updates)
        if not BY_STRIDES.isdisjoint(recorder.taken):
            refuse_windows(inputs[index].fake for index in analysis.facts.updates)
        candidates = zip([*analysis.updates, *analysis.results], analysis.differentiable, strict=True)
        differentiable = [value for value, follows in candidates if follows]
        if training:
            refuse_written_views(recorder, zip(inputs, signature.inputs, strict=True), outputs, differentiable)
        # Now, as backward may go on from these tensors.
        returned = _returned(recorder, analysis)
        refuse_functions_that_see_missing_gradients(differentiable)
        stops = Stops(recorder, inputs, differentiable if training else ())
        tangents: list[fx.Node] = []
        gradients: list[fx.Node | None] = []
        if training and differentiable:
            before = _changes(inputs)
            recorder.histories.settle()
            tangents, gradients = backward(recorder, inputs, differentiable, stops)
            if _changes(inputs) != before:
                raise Unsupported(
                    "backward changes an input, as what a checkpoint computes again may",
                    "keep what changes buffers out of the checkpoint",
                )
    return _finish(recorder, inputs, analysis, returned, tangents, gradients, stops)


def _alone_in_memory(inputs: Sequence[TracedInput]) -> dict[int, torch.Tensor]:
    """The inputs that are one tensor of the caller's each, by number."""
    return {
        number: entry.value
        for number, entry in enumerate(inputs)
        if isinstance(entry.value, torch.Tensor) and len(entry.seen) == 1
    }


def _changes(inputs: Sequence[TracedInput]) -> list[int]:
    """The number of writes to each input."""
    return [version_of(entry.value) for entry in inputs if entry.version is not None]


def _placeholders(recorder: Recorder, given: Sequence[GraphInput]) -> list[TracedInput]:
    """The graph's inputs. Numbers are bound before sizes of tensors: one that is both is read where it is passed."""
    inputs = []
    for index, entry in enumerate(given):
        name = f"primal_{index}" if isinstance(entry.value, torch.Tensor) else f"size_{index}"
        inputs.append(TracedInput(recorder.add_input(name, entry.value), entry.value))
    # Numbers first: see above.
    for traced in inputs:
        if isinstance(traced.fake, (torch.SymInt, torch.SymFloat)):
            recorder.sizes.bind(traced.fake, traced.node)
    for traced in inputs:
        if isinstance(traced.fake, torch.Tensor):
            recorder.sizes.bind_layout(traced.fake, traced.node)
    return inputs


def _run(program: BoundProgram, recorder: Recorder, arguments: Sequence[object]) -> Sequence[Any]:
    """The program's results; an error is told with the user's line, as a reason to run it in another way."""
    try:
        return program(recorder, arguments)
    except Unsupported as error:
        raise type(error)(error.what, error.hint, place_of(recorder.source)) from error
    except ON_VALUES as error:
        raise depends_on_values(error, recorder.source) from error
    except Exception as error:
        # Whatever the program raises on fakes, its own error or a limit of fakes, only eager can tell which it is.
        what = f"the program fails while it is traced ({words_of(error).splitlines()[0]})"
        raise FailsOnFakes(what, "run it eagerly: the error may be its own", place_of(recorder.source)) from error


@contextmanager
def _tracing(recorder: Recorder) -> Iterator[None]:
    """Has everything in force that tracing needs, and restores it afterwards."""
    with ExitStack() as stack:
        stack.enter_context(torch.autograd.set_multithreading_enabled(False))
        stack.enter_context(_without_autocast_cache())
        stack.enter_context(_unlogged())
        stack.enter_context(recorder.draws.counted())
        sizes_vary = recorder.fake_mode.shape_env is not None
        if sizes_vary:
            stack.enter_context(enable_python_dispatcher())  # kernels that take numbers only are rules in Python, too
        stack.enter_context(recorder.fake_mode)
        stack.enter_context(recorder)
        stack.enter_context(functional.functionalization())
        rules = EarlyRules(
            recorder.layouts,
            recorder.arrived,
            recorder.writing,
            recorder.view_versions,
            recorder.histories,
            recorder.watched,
            sizes_vary,
        )
        stack.enter_context(rules)
        stack.enter_context(recorder.until_traced)
        yield


@contextmanager
def _unlogged() -> Iterator[None]:
    """Keeps this thread's errors on fake tensors out of torch's log, which writes a page about each."""
    log, thread = logging.getLogger(FakeTensorMode.__module__), threading.get_ident()

    def is_of_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    log.addFilter(is_of_others)
    try:
        yield
    finally:
        log.removeFilter(is_of_others)


@contextmanager
def _warnings_with_size_hints(inputs: Sequence[TracedInput]) -> Iterator[None]:
    """Has warnings name the sizes of the example inputs instead of symbols."""
    sizes = [size for entry in inputs if isinstance(entry.fake, torch.Tensor) for size in entry.fake.size()]
    numbers = {str(size): str(size_hint(size)) for size in sizes if isinstance(size, torch.SymInt)}
    if not numbers:
        yield
        return
    # Symbols have names like ``s0``: whole words only.
    names = re.compile(r"\b(?:" + "|".join(map(re.escape, numbers)) + r")\b")
    with reworded(lambda text: names.sub(lambda found: numbers[found[0]], text)):
        yield


@contextmanager
def _without_autocast_cache() -> Iterator[None]:
    """Switches autocast's cache off: a cast cached while tracing must not outlive the trace, nor one from before enter
    it."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def _returned(recorder: Recorder, analysis: Analysis) -> list[fx.Node]:
    """The nodes of the forward outputs, read before backward can add to them."""
    updates = [recorder.values_of(functional.current(value)) for value in analysis.updates]
    return [*updates, *analysis.result_nodes, *analysis.sizes]


def _finish(
    recorder: Recorder,
    inputs: Sequence[TracedInput],
    analysis: Analysis,
    returned: list[fx.Node],
    tangents: list[fx.Node],
    gradients: list[fx.Node | None],
    stops: Stops,
) -> JointGraph:
    """The joint graph, with a role for every input and output."""
    facts = analysis.facts
    for entry, role in zip(inputs, _input_roles(inputs, facts), strict=True):
        entry.node.meta["role"] = role
    differentiable = [follows and bool(tangents) for follows in analysis.differentiable]
    # Roles and nodes are made in the same order: updates, results, sizes; gradients follow.
    outputs = _forward_roles(facts, differentiable, analysis.sizes)
    for tangent, output in zip(tangents, (i for i, yes in enumerate(differentiable) if yes), strict=True):
        tangent.meta["role"] = Tangent(output)
    # By which tangents a gradient is there at all: of none that arrives, the caller gets None and no zeros.
    reached = reached_by(recorder.graph, tangents)
    for index, node in enumerate(gradients):
        if node is not None:
            outputs.append(Gradient(index, tuple(sorted(inputs[index].connected.union(reached[node])))))
    outputs += [Gradient(number, reached[node], passed=True) for number, node in stops.found.items()]
    values = (*returned, *(node for node in gradients if node is not None), *stops.found.values())
    recorder.graph.output(values)
    dynamic = recorder.fake_mode.shape_env is not None
    if dynamic and any(ANSWERS in node.meta and not reached[node.all_input_nodes[0]] for node in reached):
        raise Unsupported(
            "a function with a backward of its own answers with the same whatever arrives, and sizes vary",
            "compile it for the sizes that it has",
        )
    return JointGraph(
        recorder.graph, recorder.root, facts, tuple(outputs), analysis.followed, dynamic, stops.stages, stops.behind
    )


def _input_roles(inputs: Sequence[TracedInput], facts: Facts) -> Iterator[Primal | AliasBase | Size]:
    mutated = {mutation.input for mutation in facts.mutations}
    for index, entry in enumerate(inputs):
        positions = tuple(entry.seen)
        if not isinstance(entry.fake, torch.Tensor):
            yield Size(positions[0])
        elif len(positions) > 1:
            yield AliasBase(positions)
        else:
            parameter = (entry.tracked and entry.history is None) or entry.within
            yield Primal(positions[0], entry.tracked or entry.within, index in mutated, parameter, entry.reached)


def _forward_roles(facts: Facts, differentiable: Sequence[bool], sizes: Sequence[fx.Node]) -> list[OutputRole]:
    updates: list[OutputRole] = [
        UpdatedInput(index, yes) for index, yes in zip(facts.updates, differentiable, strict=False)
    ]
    made_from: list[list[int]] = [[] for _ in range(facts.results)]
    for index, output in enumerate(facts.outputs):
        if isinstance(output, OfResult):
            made_from[output.result].append(index)
    flags = differentiable[len(updates) :]
    results = [Result(tuple(users), yes) for users, yes in zip(made_from, flags, strict=True)]
    return [*updates, *results, *(ResultSize(node.name) for node in sizes)]
