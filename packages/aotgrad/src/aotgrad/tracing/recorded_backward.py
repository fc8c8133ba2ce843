"""Backward, run by autograd into the graph of the forward that was recorded before.

Every result that autograd follows gets a tangent; what then arrives at the inputs' leaves are the gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import fx

from aotgrad.autograd_graph.missing_gradients import (
    Edges,
    function_that_sees_missing_gradients,
    functions_noted,
    leaves_behind,
    outputs_behind,
)
from aotgrad.autograd_graph.result_levels import behind, inputs_behind, stages
from aotgrad.autograd_graph.saved_tensors import TOGETHER, behind_each
from aotgrad.errors import Unsupported, words_of
from aotgrad.recording.recorder import Recorder, autocast_depth
from aotgrad.tensors import functional
from aotgrad.tensors.subclasses import unwrap
from aotgrad.torch_versions import from_functional_tensor
from aotgrad.tracing.analyse import TracedInput
from aotgrad.tracing.refused import ON_VALUES, depends_on_values


class Stops:
    """Differentiable outputs on the way from others: the gradient that comes to one ends there, and its tangent, which
    includes it and everything else that arrives, goes on."""

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


def refuse_functions_that_see_missing_gradients(outputs: Sequence[torch.Tensor]) -> None:
    """Refuses a backward of the program's that depends on which gradients arrive: here it runs with one for every
    result."""
    name = function_that_sees_missing_gradients(outputs)
    if name is not None:
        raise Unsupported(f"{name} is told which of its results were not used", "return what comes from one of them")


def backward(
    recorder: Recorder, inputs: Sequence[TracedInput], outputs: Sequence[torch.Tensor], stops: Stops
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
        recorder.autocast_depth = autocast_depth()
        try:
            # In the order of ``leaves``: those of plain inputs, then of what lies within objects.
            found = iter(_gradients(outputs, leaves, tangents))
            gradients = [_gradient(recorder, entry, found) for entry in inputs]
            within = _gradients_within(recorder, found)
        except Unsupported:
            raise
        except ON_VALUES as error:
            raise depends_on_values(error, None) from error
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
    """The outputs that autograd follows, and tangents for them: objects in place of the tensors within."""
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
    """The gradients of the leaves.  A reentrant checkpoint adds gradients to leaves by itself, and refuses to work for
    a caller that asks for them."""
    if not _has_reentrant_checkpoint(outputs):
        return torch.autograd.grad(outputs, leaves, tangents, allow_unused=True)
    torch.autograd.backward(outputs, tangents)
    return [leaf.grad for leaf in leaves]


def _has_reentrant_checkpoint(outputs: Sequence[torch.Tensor]) -> bool:
    """True if a reentrant checkpoint is in the history, known by the name of its node."""
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
    """The state that backward usually runs in: grad mode as autograd sets it, outside of any autocast region."""
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
    """A fake tensor in the layout that the output's gradient is expected in: its own, or a dense one where it has gaps
    or overlaps."""
    with recorder.paused():
        like = torch.empty_like(output, requires_grad=False)
        return from_functional_tensor(like) if functional.is_functional(like) else like


def _note_connections(inputs: Sequence[TracedInput], outputs: Sequence[torch.Tensor], unanswered: Edges) -> None:
    """Notes for each input the outputs that autograd comes to it from."""
    leaves = [entry for entry in inputs if entry.leaf is not None]
    found = outputs_behind(outputs, [entry.leaf for entry in leaves if entry.leaf is not None], unanswered)
    for entry, connected in zip(leaves, found, strict=True):
        entry.connected = connected
    reached = leaves_behind(outputs)
    for entry in leaves:
        entry.reached = id(entry.leaf) in reached
