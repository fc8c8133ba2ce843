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
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.fx.immutable_collections import immutable_list

from aotgrad.autograd_graph.missing_gradients import (
    ANSWERS,
    Edges,
    functions_noted,
    leaves_behind,
    outputs_behind,
    reached_by,
    told_of_missing_gradients,
)
from aotgrad.autograd_graph.result_levels import Stage, behind, inputs_behind, stages
from aotgrad.autograd_graph.saved_inputs import numbered_versions
from aotgrad.autograd_graph.saved_tensors import TOGETHER, Behind, behind_each
from aotgrad.errors import DependsOnValues, FailsOnFakes, Unsupported, words_of
from aotgrad.facts import Facts, OfResult
from aotgrad.pre_autograd.rules import EarlyRules
from aotgrad.recording.lost_writes import BY_STRIDES, refuse_overlapping, refuse_windows
from aotgrad.recording.recorder import Decompositions, Recorder
from aotgrad.roles import AliasBase, Gradient, OutputRole, Primal, Result, ResultSize, Size, Tangent, UpdatedInput
from aotgrad.tensors import functional
from aotgrad.tensors.subclasses import unwrap
from aotgrad.tensors.symbols import size_hint
from aotgrad.torch_versions import (
    DataDependentOutputException,
    DisableTorchDispatch,
    DynamicOutputShapeException,
    FakeTensorMode,
    enable_python_dispatcher,
    from_functional_tensor,
    version_of,
)
from aotgrad.tracing.analyse import Analysis, TracedInput, analyse
from aotgrad.tracing.inputs import GraphInput, Signature
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
        """Whether autograd shall follow what the caller gets, though the gradient of every input may be none."""
        return any(isinstance(role, Gradient) or getattr(role, "differentiable", False) for role in self.outputs)

    @property
    def values(self) -> Sequence[Any]:
        """What the graph returns, parallel to `outputs`."""
        returned: immutable_list[Any] = self.graph.output_node().args[0]
        return returned


_ON_VALUES = (DataDependentOutputException, DynamicOutputShapeException)

BoundProgram = Callable[[Recorder, Sequence[Any]], Sequence[Any]]


def trace_joint(
    program: BoundProgram, signature: Signature, *, decompositions: Decompositions, training: bool
) -> JointGraph:
    """Run `program` once in the caller's grad mode and record all that it does, with `training` its backward too."""
    recorder = Recorder(signature.fake_mode, decompositions)
    inputs = _placeholders(recorder, signature.inputs)
    with _tracing(recorder):
        for entry, given in zip(inputs, signature.inputs, strict=True):
            _present(entry, given, training)
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
                recorder.layouts[id(entry.value)] = entry.layout = _without_data(entry.fake)
                entry.version = None if entry.value.is_inference() else version_of(entry.value)
        # Whatever was taken while the inputs were made is none of the program's.
        recorder.taken.clear()
        with _warnings_with_size_hints(inputs):
            outputs = _run(program, recorder, _arguments(signature, inputs))
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
        _refuse_told(differentiable)
        stops = _Stops(recorder, inputs, differentiable if training else ())
        tangents: list[fx.Node] = []
        gradients: list[fx.Node | None] = []
        if training and differentiable:
            before = _changes(inputs)
            recorder.histories.settle()
            tangents, gradients = _backward(recorder, inputs, differentiable, stops)
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
    """How often each input was written to."""
    return [version_of(entry.value) for entry in inputs if entry.version is not None]


class _Stops:
    """Differentiable outputs on the way from others: the gradient that comes to one ends there, and its tangent, which
    takes in what else arrives, goes on."""

    def __init__(self, recorder: Recorder, inputs: Sequence[TracedInput], outputs: Sequence[torch.Tensor]) -> None:
        # Where tensors lie within objects (subclasses) all goes back together.
        whole = not (recorder.opened_leaves or recorder.opened_results)
        others = behind(outputs) if whole else [set() for _ in outputs]
        self.recorder = recorder
        self.numbers = sorted(set().union(*others))
        leaves = {id(entry.leaf): number for number, entry in enumerate(inputs) if entry.leaf is not None}
        older = {number for number, entry in enumerate(inputs) if entry.history is not None}
        with recorder.paused():
            self.behind = behind_each(outputs) if whole else (TOGETHER,) * len(outputs)
        held = [each.held for each in self.behind]
        found = stages(others, inputs_behind(outputs, leaves), older, held) if whole else ()
        self.stages = found if len(found) > 1 else ()
        self.found: dict[int, fx.Node] = {}

    def at(self, number: int, output: torch.Tensor, tangent: torch.Tensor) -> None:
        def pass_on(gradient: torch.Tensor | None) -> torch.Tensor:
            if gradient is not None:  # what is between may be a function that has none for it
                self.found[number] = self.recorder.node_of(functional.current(gradient))
            return tangent

        # The hook ends the gradient that came from later outputs, and puts in its place the tangent: what the caller's
        # own backward brings there, which is the sum of all that arrives.
        output.register_hook(pass_on)


def _placeholders(recorder: Recorder, given: Sequence[GraphInput]) -> list[TracedInput]:
    """The graph's inputs.  Numbers are bound before sizes of tensors: one that is both is read where it is passed."""
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
    """The program's results; what goes wrong is told with the user's line, as a reason to run it otherwise."""
    try:
        return program(recorder, arguments)
    except Unsupported as error:
        raise type(error)(error.what, error.hint, place_of(recorder.source)) from error
    except _ON_VALUES as error:
        raise _depends_on_values(error, recorder.source) from error
    except Exception as error:
        # Whatever the program raises on fakes, its own error or a limit of fakes, only eager can tell which it is.
        what = f"the program fails while it is traced ({words_of(error).splitlines()[0]})"
        raise FailsOnFakes(what, "run it eagerly: the error may be its own", place_of(recorder.source)) from error


def _depends_on_values(error: Exception, source: fx.Node | None) -> DependsOnValues:
    what = f"a size or number depends on the values of a tensor ({error})"
    return DependsOnValues(what, "keep that call out of the graph", place_of(source))


def place_of(source: fx.Node | None) -> str:
    """The user's line behind a node of the program's graph, where the graph knows it."""
    trace = "" if source is None else source.meta.get("stack_trace") or ""
    found = re.findall(r'File "([^"]+)", line (\d+)', trace)
    return ":".join(found[-1]) if found else ""


@contextmanager
def _tracing(recorder: Recorder) -> Iterator[None]:
    """Everything that must be in force, and back as it was, while the program runs."""
    with ExitStack() as stack:
        stack.enter_context(torch.autograd.set_multithreading_enabled(False))
        stack.enter_context(_without_autocast_cache())
        stack.enter_context(_unlogged())
        stack.enter_context(recorder.draws.counted())
        if recorder.fake_mode.shape_env is not None:
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
        )
        stack.enter_context(rules)
        stack.enter_context(recorder.until_traced)
        yield


@contextmanager
def _unlogged() -> Iterator[None]:
    """What an operator refuses on fakes is an error that this thread gets; torch logs it as well, in a page."""
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
    """Warnings that speak of sizes speak of those that the example inputs have."""
    sizes = [size for entry in inputs if isinstance(entry.fake, torch.Tensor) for size in entry.fake.size()]
    numbers = {str(size): str(size_hint(size)) for size in sizes if isinstance(size, torch.SymInt)}
    if not numbers:
        yield
        return
    with warnings.catch_warnings(record=True) as told:
        yield
    # Symbols have names like ``s0``: whole words only.
    names = re.compile(r"\b(?:" + "|".join(map(re.escape, numbers)) + r")\b")
    for each in told:
        text = names.sub(lambda found: numbers[found[0]], str(each.message))
        warnings.warn_explicit(text, each.category, each.filename, each.lineno)


@contextmanager
def _without_autocast_cache() -> Iterator[None]:
    """A cast cached while tracing must not outlive the trace, nor one from before enter it."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def _present(entry: TracedInput, given: GraphInput, training: bool) -> None:
    """What the program sees in place of a real input, leaf where the real one is a leaf."""
    if not isinstance(entry.fake, torch.Tensor):
        entry.value = entry.seen[given.position] = entry.fake
        return
    _present_tensor(entry, given, training)
    # Members are the caller's arguments over this memory, each a view of the one input that stands for all.
    entry.seen = {m.position: entry.value.as_strided(m.size, m.stride, m.offset) for m in given.members}
    if not given.members:
        entry.seen[given.position] = entry.value


def _present_tensor(entry: TracedInput, given: GraphInput, training: bool) -> None:
    entry.within = given.within and given.requires_grad
    entry.tracked = given.requires_grad and not given.within
    if not entry.tracked:
        entry.value = functional.wrap(entry.fake)
    # Without backward it is the same whether there is a history: what asks for `requires_grad` is answered.
    elif given.is_leaf or not training:
        entry.value = entry.leaf = functional.wrap(entry.fake).requires_grad_()
    else:
        entry.leaf = functional.wrap(entry.fake).requires_grad_()
        with torch.enable_grad():
            # Otherwise a write to it would be one to a leaf, which autograd refuses of leaves alone.
            entry.value = _Arrive.apply(entry.leaf, entry.fake)
        entry.history = entry.value.grad_fn


def _without_data(fake: torch.Tensor) -> torch.Tensor:
    with DisableTorchDispatch():
        return torch.empty_strided(fake.size(), fake.stride(), device="meta").as_strided(
            fake.size(), fake.stride(), fake.storage_offset()
        )


class _Arrive(torch.autograd.Function):
    """A tensor that is not a leaf and has no operator behind it: the program may change it in place."""

    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor, fake: torch.Tensor) -> torch.Tensor:
        ctx.set_materialize_grads(False)
        return functional.wrap(fake)

    @staticmethod
    def backward(ctx: object, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad, None


def _arguments(signature: Signature, inputs: Sequence[TracedInput]) -> list[Any]:
    """What the program is called with: constants, what stands for its inputs, one object where it had one twice."""
    arguments: list[Any] = [None] * signature.arity
    for position, value in signature.constants:
        arguments[position] = value
    for entry in inputs:
        for position, value in entry.seen.items():
            arguments[position] = value
    for position, first in signature.duplicates:
        arguments[position] = arguments[first]
    return arguments


def _refuse_told(outputs: Sequence[torch.Tensor]) -> None:
    """A backward that the program wrote is run here with a gradient for every result, whichever arrive later."""
    told = told_of_missing_gradients(outputs)
    if told is not None:
        raise Unsupported(f"{told} is told which of its results were not used", "return what comes from one of them")


def _note_connections(inputs: Sequence[TracedInput], outputs: Sequence[torch.Tensor], unanswered: Edges) -> None:
    leaves = [entry for entry in inputs if entry.leaf is not None]
    found = outputs_behind(outputs, [entry.leaf for entry in leaves if entry.leaf is not None], unanswered)
    for entry, connected in zip(leaves, found, strict=True):
        entry.connected = connected
    reached = leaves_behind(outputs)
    for entry in leaves:
        entry.reached = id(entry.leaf) in reached


def _returned(recorder: Recorder, analysis: Analysis) -> list[fx.Node]:
    """The nodes behind the forward outputs, read before backward can add to them."""
    updates = [recorder.values_of(functional.current(value)) for value in analysis.updates]
    return [*updates, *analysis.result_nodes, *analysis.sizes]


def _backward(
    recorder: Recorder, inputs: Sequence[TracedInput], outputs: Sequence[torch.Tensor], stops: _Stops
) -> tuple[list[fx.Node], list[fx.Node | None]]:
    """Tangents for `outputs`, and for each input the node of its gradient."""
    # What is recorded from here on stands behind no line of the program.
    recorder.phase, recorder.source = "backward", None
    every = outputs
    recorder.arrived.clear()  # what follows does go on to what is behind them
    tangents, nodes = [], []
    for index, output in enumerate(outputs):
        fake = _tangent_like(recorder, functional.current(output))
        nodes.append(recorder.add_input(f"tangent_{index}", fake))
        tangents.append(functional.wrap(fake))
    plain = [entry.leaf for entry in inputs if entry.leaf is not None]
    leaves = [*plain, *(opened.value for opened in recorder.opened_leaves)]
    # An output on the way from another is no end of its own: a hook ends what comes to it, and sends its tangent on.
    for number in stops.numbers:
        stops.at(number, outputs[number], tangents[number])
    ends = [number for number in range(len(outputs)) if number not in stops.numbers]
    outputs, tangents = [outputs[number] for number in ends], [tangents[number] for number in ends]
    outputs, tangents = _outermost(recorder, outputs, tangents)
    noted = functions_noted(outputs, nodes, lambda value: recorder.node_of(functional.current(value)))
    with _plain_backward({leaf.device.type for leaf in leaves}), noted as unanswered:
        try:
            # In the order of ``leaves``: those of plain inputs, then of what lies within objects.
            found = iter(_gradients(outputs, leaves, tangents))
            gradients = [_gradient(recorder, entry, found) for entry in inputs]
            within = _gradients_within(recorder, found)
        except Unsupported:
            raise
        except _ON_VALUES as error:
            raise _depends_on_values(error, None) from error
        except Exception as error:
            # Eager reports this when backward runs, and not at all if it never does: so must the program.  Or torch's
            # own rules for fakes fail, as at gradients of the mean of nothing.
            raise Unsupported(
                f"autograd cannot run backward here ({words_of(error)})", "eager reports it when it matters"
            ) from error
    _note_connections(inputs, every, unanswered)
    return nodes, [within.get(id(entry.value), known) for entry, known in zip(inputs, gradients, strict=True)]


def _outermost(
    recorder: Recorder, outputs: Sequence[torch.Tensor], tangents: Sequence[torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What autograd follows, and tangents for that: objects in place of the tensors within."""
    within = {id(inner) for opened in recorder.opened_results for inner in opened.inner}
    pairs = [(o, t) for o, t in zip(outputs, tangents, strict=True) if id(o) not in within]
    arriving = dict(zip(map(id, outputs), tangents, strict=True))
    for opened in recorder.opened_results:
        wrapping, inner = unwrap(opened.value)
        assert wrapping is not None
        pairs.append((opened.value, wrapping.build(iter([arriving[id(value)] for value in inner]))))
    return [output for output, _ in pairs], [tangent for _, tangent in pairs]


def _gradients_within(recorder: Recorder, found: Iterator[torch.Tensor | None]) -> dict[int, fx.Node]:
    """The gradients of tensors within objects, by the id of those; how each is wrapped is noted."""
    gradients = {}
    for opened, gradient in zip(recorder.opened_leaves, found, strict=True):
        if gradient is None:
            continue
        opened.gradient, inner = unwrap(gradient)
        if opened.gradient is None or len(inner) != len(opened.inner):
            raise Unsupported("the gradient of a tensor subclass is another kind of tensor", "run it eagerly")
        for value, part in zip(opened.inner, inner, strict=True):
            gradients[id(value)] = recorder.node_of(functional.current(part))
    return gradients


def _gradients(
    outputs: Sequence[torch.Tensor], leaves: Sequence[torch.Tensor], tangents: Sequence[torch.Tensor]
) -> Sequence[torch.Tensor | None]:
    """A reentrant checkpoint adds gradients to leaves by itself, and refuses to work for who asks to be told them."""
    if not _has_reentrant_checkpoint(outputs):
        return torch.autograd.grad(outputs, leaves, tangents, allow_unused=True)
    torch.autograd.backward(outputs, tangents)
    return [leaf.grad for leaf in leaves]


def _has_reentrant_checkpoint(outputs: Sequence[torch.Tensor]) -> bool:
    """By the name of its node, wherever in the history: it is a function of torch's in Python."""
    pending = [output.grad_fn for output in outputs]
    seen = set()
    while pending:
        node = pending.pop()
        if node is not None and node not in seen:
            if node.name() == "CheckpointFunctionBackward":
                return True
            seen.add(node)
            pending.extend(source for source, _ in node.next_functions)
    return False


@contextmanager
def _plain_backward(devices: set[str]) -> Iterator[None]:
    """Backward as it usually runs: grad mode as autograd sets it, outside any autocast region."""
    with ExitStack() as stack:
        for device in devices:
            if torch.amp.is_autocast_available(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


def _gradient(recorder: Recorder, entry: TracedInput, found: Iterator[torch.Tensor | None]) -> fx.Node | None:
    """The node of an input's gradient, which is the next one found if the input has a leaf."""
    grad = next(found) if entry.leaf is not None else None
    if grad is None:
        return None
    if not functional.is_functional(grad):
        raise Unsupported("the gradient of a plain tensor is a tensor subclass", "run it eagerly")
    return recorder.node_of(functional.current(grad))


def _tangent_like(recorder: Recorder, output: torch.Tensor) -> torch.Tensor:
    """A gradient is expected in the layout of its output; an output with holes or overlap expects a dense one."""
    with recorder.paused():
        like = torch.empty_like(output, requires_grad=False)
        return from_functional_tensor(like) if functional.is_functional(like) else like


def _finish(
    recorder: Recorder,
    inputs: Sequence[TracedInput],
    analysis: Analysis,
    returned: list[fx.Node],
    tangents: list[fx.Node],
    gradients: list[fx.Node | None],
    stops: _Stops,
) -> JointGraph:
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
