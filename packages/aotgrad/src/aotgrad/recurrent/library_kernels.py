"""The recurrent kernels of oneDNN and cuDNN as operators whose results have sizes that graphs can tell.

Each keeps memory for its backward, of a size that only it knows.  What graphs are given is an empty tensor over that
memory, whose size is always 0; where somebody has taken a copy for the tensor, the kernel runs again.
Must not know: tracing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as nnf

from aotgrad.errors import AotgradError, Unsupported
from aotgrad.recurrent import steps
from aotgrad.recurrent.steps import register, written_out
from aotgrad.state import STATE
from aotgrad.torch_versions import aten

LSTM_OF_ONEDNN = 2
_CUDNN = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}

_LAYER = (
    "(Tensor input, Tensor[] weights, Tensor state, Tensor cell, bool has_biases, bool reverse) "
    "-> (Tensor, Tensor, Tensor, Tensor)"
)
_LAYER_BACKWARD = (
    "(Tensor[] gradients, Tensor input, Tensor[] weights, Tensor state, Tensor cell, Tensor states, Tensor last_state, "
    "Tensor last_cell, Tensor kept, bool has_biases, bool reverse) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_NETWORK = (
    "(str kind, Tensor input, Tensor[] weights, Tensor[] states, int layers, bool bidirectional, bool train, "
    "float dropout) -> (Tensor, Tensor, Tensor, Tensor)"
)
_NETWORK_BACKWARD = (
    "(Tensor[] gradients, str kind, Tensor input, Tensor[] weights, Tensor[] states, Tensor output, Tensor kept, "
    "int layers, bool bidirectional, bool train, float dropout) -> Tensor[]"
)


def _memory(kept: Tensor) -> Tensor | None:
    """The whole memory that an empty tensor lies over; None if there is none."""
    memory = kept.untyped_storage()
    return None if not memory.nbytes() else torch.empty(0, dtype=torch.uint8, device=kept.device).set_(
        memory, 0, (memory.nbytes(),)
    )  # fmt: skip


# -- oneDNN: one layer of an LSTM, in one direction -------------------------------------------------------------------


def lstm_layer(
    input: Tensor, weights: Sequence[Tensor], state: Tensor, cell: Tensor, has_biases: bool, reverse: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One layer of an LSTM by oneDNN, with gradients on: by grad mode the kernel decides whether to keep anything for
    backward."""
    with torch.enable_grad():
        states, state, cell, kept = torch.ops.aten.mkldnn_rnn_layer.default(
            input.contiguous(), *weights, state.contiguous(), cell.contiguous(), reverse, [], LSTM_OF_ONEDNN,
            cell.shape[-1], 1, has_biases, False, False, True,
        )  # fmt: skip
    return states, state, cell, kept[:0]


def lstm_layer_fake(
    input: Tensor, weights: Sequence[Tensor], state: Tensor, cell: Tensor, has_biases: bool, reverse: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    states = input.new_empty(input.shape[0], input.shape[1], state.shape[-1])
    return states, state.new_empty(state.shape), cell.new_empty(cell.shape), input.new_empty(0, dtype=torch.uint8)


def lstm_layer_backward(
    gradients: Sequence[Tensor], input: Tensor, weights: Sequence[Tensor], state: Tensor, cell: Tensor,
    states: Tensor, last_state: Tensor, last_cell: Tensor, kept: Tensor, has_biases: bool, reverse: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    memory = _memory(kept)
    # A copy has taken the place of what forward kept: an empty tensor of its own.
    if memory is None:
        memory = _memory(lstm_layer(input, weights, state, cell, has_biases, reverse)[3])
    found = torch.ops.aten.mkldnn_rnn_layer_backward.default(
        input.contiguous(), *weights, state.contiguous(), cell.contiguous(), states, last_state, last_cell,
        *(gradient.contiguous() for gradient in gradients), reverse, LSTM_OF_ONEDNN, cell.shape[-1], 1, has_biases,
        True, False, [], False, memory,
    )  # fmt: skip
    return tuple(found)


def lstm_layer_backward_fake(
    gradients: Sequence[Tensor], input: Tensor, weights: Sequence[Tensor], state: Tensor, cell: Tensor, *rest: object
) -> tuple[Tensor, ...]:
    return tuple(given.new_empty(given.shape) for given in (input, *weights, state, cell))


def _layer_written_out(
    input: Tensor, weights: Sequence[Tensor], state: Tensor, cell: Tensor, has_biases: bool, reverse: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    gates = nnf.linear(input, weights[0], weights[2] + weights[3] if has_biases else None)
    states, last, _ = written_out("lstm", gates, state[0], cell[0], weights[1], None, None, reverse)
    return states, states[0 if reverse else -1][None], last[None], input.new_empty(0, dtype=torch.uint8)


def _layer_backward_written_out(
    gradients: Sequence[Tensor], input: Tensor, weights: Sequence[Tensor], state: Tensor, cell: Tensor,
    states: Tensor, last_state: Tensor, last_cell: Tensor, kept: Tensor, has_biases: bool, reverse: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    given = [v if v.requires_grad else v.detach().requires_grad_() for v in (input, *weights, state, cell)]
    results = _layer_written_out(given[0], given[1:-2], given[-2], given[-1], has_biases, reverse)[:3]
    return torch.autograd.grad(results, given, gradients, create_graph=True, materialize_grads=True)


# -- cuDNN: a whole network -------------------------------------------------------------------------------------------


def cudnn_network(
    kind: str, input: Tensor, weights: Sequence[Tensor], states: Sequence[Tensor], layers: int, bidirectional: bool,
    train: bool, dropout: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    first, cell, size, projected = _started(states)
    per_layer = len(weights) // (layers * (1 + bidirectional))
    with _random_state(input.device, dropout) as random:
        output, last, last_cell, kept, _ = aten._cudnn_rnn.default(
            input.contiguous(), weights, per_layer,
            _buffer(kind, input, weights, size, projected, layers, bidirectional), first, cell, _CUDNN[kind], size,
            projected, layers, False, dropout, train, bidirectional, [], random,
        )  # fmt: skip
    return output, last, last_cell, kept[:0]


def cudnn_network_fake(
    kind: str, input: Tensor, weights: Sequence[Tensor], states: Sequence[Tensor], layers: int, bidirectional: bool,
    train: bool, dropout: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    output = input.new_empty(input.shape[0], input.shape[1], states[0].shape[-1] * (1 + bidirectional))
    cell = input.new_empty(states[1].shape if len(states) == 2 else 0)
    return output, input.new_empty(states[0].shape), cell, input.new_empty(0, dtype=torch.uint8)


def cudnn_network_backward(
    gradients: Sequence[Tensor], kind: str, input: Tensor, weights: Sequence[Tensor], states: Sequence[Tensor],
    output: Tensor, kept: Tensor, layers: int, bidirectional: bool, train: bool, dropout: float,
) -> list[Tensor]:  # fmt: skip
    first, cell, size, projected = _started(states)
    memory = _memory(kept)
    # Running forward again would drop other elements.
    if memory is None and dropout:
        raise AotgradError("what cuDNN dropped in forward was lost on the way to backward")
    if memory is None and train:
        memory = _memory(cudnn_network(kind, input, weights, states, layers, bidirectional, train, dropout)[3])
    per_layer = len(weights) // (layers * (1 + bidirectional))
    with _random_state(input.device, dropout) as random:
        of_input, of_state, of_cell, of_weights = aten._cudnn_rnn_backward.default(
            input.contiguous(), weights, per_layer,
            _buffer(kind, input, weights, size, projected, layers, bidirectional), first, cell, output,
            gradients[0].contiguous(), gradients[1].contiguous(), None if cell is None else gradients[2].contiguous(),
            _CUDNN[kind], size, projected, layers, False, dropout, train, bidirectional, [], random,
            kept if memory is None else memory, [True, True, cell is not None, True],
        )  # fmt: skip
    of_states = [of_state] if cell is None else [of_state, of_cell]
    return [gradient.contiguous() for gradient in (of_input, *of_weights, *of_states)]


def cudnn_network_backward_fake(
    gradients: Sequence[Tensor], kind: str, input: Tensor, weights: Sequence[Tensor], states: Sequence[Tensor],
    *rest: object,
) -> list[Tensor]:  # fmt: skip
    return [given.new_empty(given.shape) for given in (input, *weights, *states)]


@contextmanager
def _random_state(device: torch.device, dropout: float) -> Iterator[Tensor | None]:
    """The random state that cuDNN draws from for dropout; one for all networks of a device, which take turns."""
    if not dropout:
        yield None
        return
    state, drawn = _dropout_of(device)
    # A captured graph must not wait for events from outside of it.
    if torch.cuda.is_current_stream_capturing():
        yield state
        return
    stream = torch.cuda.current_stream(device)
    stream.wait_event(drawn)
    yield state
    # The next network that draws waits until this one has.
    drawn.record(stream)


def _dropout_of(device: torch.device) -> tuple[Tensor, torch.cuda.Event]:
    known = STATE.dropout_of_cudnn.get(device)
    if known is None:
        known = STATE.dropout_of_cudnn.setdefault(device, _new_dropout(device))
    return known


def _new_dropout(device: torch.device) -> tuple[Tensor, torch.cuda.Event]:
    seed = int(torch.randint(2**31 - 1, ()))
    state = aten._cudnn_init_dropout_state.default(0.5, True, seed, dtype=torch.uint8, device=device)
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(device))
    return state, event


def _started(states: Sequence[Tensor]) -> tuple[Tensor, Tensor | None, int, int]:
    """The first state and cell, the width of the network, and the width of its projection, or 0."""
    first, cell = states[0].contiguous(), states[1].contiguous() if len(states) == 2 else None
    size = first.shape[-1] if cell is None else cell.shape[-1]
    return first, cell, size, first.shape[-1] if size != first.shape[-1] else 0


def _buffer(
    kind: str, input: Tensor, weights: Sequence[Tensor], size: int, projected: int, layers: int, bidirectional: bool
) -> Tensor:
    """The memory that holds all weights as cuDNN wants them: their own, if they are laid out so already."""
    shapes = tuple(tuple(weight.shape) for weight in weights)
    per_layer = len(weights) // (layers * (1 + bidirectional))
    config = (per_layer, input.shape[-1], _CUDNN[kind], size, projected, layers, False, bidirectional)
    offsets, elements = _layout(shapes, config, weights[0].dtype, weights[0].device)
    memory = weights[0].untyped_storage()
    together = all(weight.untyped_storage().data_ptr() == memory.data_ptr() for weight in weights)
    # As ``flatten_parameters`` left them: nothing is copied.
    if together and tuple(weight.storage_offset() for weight in weights) == offsets:
        return weights[0].new_empty(0).set_(memory, 0, (elements,))
    copies = [weight.detach().clone() for weight in weights]
    return aten._cudnn_rnn_flatten_weight.default(copies, *config)


@cache
def _layout(
    shapes: tuple[tuple[int, ...], ...], config: Any, dtype: torch.dtype, device: torch.device
) -> tuple[tuple[int, ...], int]:
    """The offset of each weight in that memory, and its size."""
    samples = [torch.empty(shape, dtype=dtype, device=device) for shape in shapes]
    together = aten._cudnn_rnn_flatten_weight.default(samples, *config)
    return tuple(sample.storage_offset() for sample in samples), together.numel()


def _not_twice(*args: object) -> Any:
    raise Unsupported("cuDNN's recurrent networks cannot be differentiated twice", "switch cuDNN off for them")


def define() -> None:
    """Defines the operators when the first network is met: few programs have one, and torch takes its time for them."""
    with STATE.defining_operators:
        _define_once()


@cache
def _define_once() -> None:
    steps.define()
    register("lstm_layer", _LAYER, lstm_layer, lstm_layer_fake, _layer_written_out)
    register(
        "lstm_layer_backward",
        _LAYER_BACKWARD,
        lstm_layer_backward,
        lstm_layer_backward_fake,
        _layer_backward_written_out,
    )
    register("cudnn_network", _NETWORK, cudnn_network, cudnn_network_fake, _not_twice)
    register(
        "cudnn_network_with_dropout", _NETWORK, cudnn_network, cudnn_network_fake, _not_twice,
        tags=(torch.Tag.nondeterministic_seeded,),
    )  # fmt: skip
    register(
        "cudnn_network_backward", _NETWORK_BACKWARD, cudnn_network_backward, cudnn_network_backward_fake, _not_twice
    )
