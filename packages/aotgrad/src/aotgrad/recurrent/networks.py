"""Networks of several layers and directions, by the method that is fastest where they run.

```
 cuDNN               one operator for the network
 oneDNN, an LSTM     one operator for each layer and direction
 few known steps     written out: compilers fuse across them
 otherwise           for each layer and direction one product for all steps' input, and one operator for the steps
```
torch's own rules for dynamic sizes are not used: they write everything out, and leave dropout away.
Must not know: recording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as nnf

from aotgrad.errors import Unsupported
from aotgrad.recurrent import library_kernels
from aotgrad.recurrent.steps import written_out
from aotgrad.torch_versions import DisablePythonDispatcher, get_mkldnn_enabled, set_mkldnn_enabled

_WRITTEN_OUT = 8
"""The most steps of all layers and directions that are written out: more make compiling slow."""
_WRITTEN_OUT_INSTEAD_OF_ONEDNN = 6
"""Fewer where oneDNN has a kernel, in training; without gradients its kernel is always faster."""

_HALVES = {torch.bfloat16: "_is_mkldnn_bf16_supported", torch.float16: "_is_mkldnn_fp16_supported"}


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer in one direction: its weights and its initial state."""

    kind: str
    weights: Sequence[Tensor]  # of the input, of the state; their biases; of the projection
    state: Tensor
    cell: Tensor | None
    has_biases: bool
    reverse: bool
    written_out: bool

    @property
    def biases(self) -> tuple[Tensor | None, Tensor | None]:
        return (self.weights[2], self.weights[3]) if self.has_biases else (None, None)

    @property
    def projection(self) -> Tensor | None:
        return self.weights[-1] if len(self.weights) == 3 + 2 * self.has_biases else None


@dataclass(frozen=True, slots=True)
class Network:
    """The arguments of torch's functions for sequences of one length."""

    kind: str
    input: Tensor  # its first dimension counts the steps
    states: Sequence[Tensor]
    weights: Sequence[Tensor]
    has_biases: bool
    layers: int
    dropout: float
    train: bool
    bidirectional: bool

    @property
    def directions(self) -> int:
        return 1 + self.bidirectional

    @property
    def steps(self) -> int | None:
        """The steps of all layers and directions, if their number is known."""
        count = self.input.shape[0]
        return count * self.layers * self.directions if isinstance(count, int) else None

    def layer(self, index: int, direction: int, by_onednn: bool) -> Layer:
        at = index * self.directions + direction
        each = len(self.weights) // (self.layers * self.directions)
        limit = _WRITTEN_OUT
        if by_onednn:
            limit = _WRITTEN_OUT_INSTEAD_OF_ONEDNN if torch.is_grad_enabled() else 0
        first = [state[at] for state in self.states]
        return Layer(
            self.kind, self.weights[at * each : (at + 1) * each], first[0], first[1] if len(first) == 2 else None,
            self.has_biases, direction == 1, self.steps is not None and self.steps <= limit,
        )  # fmt: skip


def network(kind: str, *args: Any, **kwargs: Any) -> Any:
    """The result of torch's function of this name."""
    function = getattr(torch, kind)
    if kwargs or not isinstance(args[2], (list, tuple)) or args[0].dim() != 3:
        return _as_torch_does(function, args, kwargs)  # packed sequences, and what torch refuses
    input, states, weights, has_biases, layers, dropout, train, bidirectional, batch_first = args
    input = input.transpose(0, 1) if batch_first else input
    if isinstance(input.shape[0], int) and input.shape[0] == 0:
        return _as_torch_does(function, args, kwargs)  # it says that this cannot be
    library_kernels.define()
    states = tuple(states) if kind == "lstm" else (states,)
    given = Network(kind, input, states, weights, has_biases, layers, dropout, train, bidirectional)
    by_cudnn = input.device.type == "cuda" and torch.backends.cudnn.is_acceptable(input)
    if torch.is_autocast_enabled(input.device.type):
        if not by_cudnn and not _suits_onednn(given):
            return _as_torch_does(function, args, kwargs)
        # Autocast gives cuDNN half precision, whatever is asked for.
        given = _cast(given, torch.float16 if by_cudnn else torch.get_autocast_dtype(input.device.type))
    output, *last = _by_cudnn(given) if by_cudnn else _by_layers(given)
    return (output.transpose(0, 1) if batch_first else output, *last)


def _as_torch_does(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Torch's own code, with oneDNN off while gradients are recorded: by grad mode its kernel decides whether to keep
    anything, and compiled forwards run without gradients."""
    if any(isinstance(size, torch.SymInt) for size in args[0].shape):
        raise Unsupported(
            f"{function.__name__} of packed sequences or under autocast, over sizes that vary", "run it eagerly"
        )
    enabled = get_mkldnn_enabled()
    set_mkldnn_enabled(enabled and not torch.is_grad_enabled())
    try:
        with DisablePythonDispatcher():
            return function(*args, **kwargs)
    finally:
        set_mkldnn_enabled(enabled)


def _cast(given: Network, dtype: torch.dtype) -> Network:
    states, weights = ([tensor.to(dtype) for tensor in tensors] for tensors in (given.states, given.weights))
    return Network(
        given.kind, given.input.to(dtype), states, weights, given.has_biases, given.layers, given.dropout, given.train,
        given.bidirectional,
    )  # fmt: skip


def _followed(tensors: Sequence[object]) -> bool:
    return torch.is_grad_enabled() and any(isinstance(v, Tensor) and v.requires_grad for v in tensors)


# -- by layers ------------------------------------------------------------------------------------------------------


def _by_layers(given: Network) -> tuple[Tensor, ...]:
    values, last = given.input, []
    by_onednn = _suits_onednn(given)
    for index in range(given.layers):
        if index and given.train and given.dropout:
            values = torch.dropout(values, given.dropout, True)
        results = []
        for direction in range(given.directions):
            layer = given.layer(index, direction, by_onednn)
            kernel = _by_onednn if by_onednn and not layer.written_out else _by_steps
            states, *ends = kernel(layer, values)
            results.append(states)
            last.append(ends)
        values = torch.cat(results, 2) if given.bidirectional else results[0]
    return values, *(ends[0] if len(ends) == 1 else torch.cat(ends) for ends in zip(*last, strict=True))


def _by_steps(layer: Layer, input: Tensor) -> tuple[Tensor, ...]:
    """All states of a layer, the last one, and the last cell, in the shape of a network of one layer."""
    of_input, of_state = layer.biases
    if of_input is not None and layer.kind != "gru":  # which alone takes the state's bias within a gate
        of_input, of_state = of_input + of_state, None
    gates = nnf.linear(input, layer.weights[0], of_input)
    given = (layer.kind, gates, layer.state, layer.cell, layer.weights[1], of_state, layer.projection, layer.reverse)
    if layer.written_out:
        states, cell, _ = written_out(*given, keep=False)
    elif _followed(given):
        states, cell = _Steps.apply(*given)
    else:
        states, cell, _ = torch.ops.aotgrad.steps.default(*given, False)
    # In memory of its own, as eager's: programs write to the state, when a sequence ends, and keep it.
    last = (states[:1] if layer.reverse else states[-1:]).clone()
    return (states, last) if layer.cell is None else (states, last, cell.unsqueeze(0))


class _Steps(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kind: str, gates: Tensor, state: Tensor, cell: Any, weight: Tensor, bias: Any, projection: Any,
        reverse: bool,
    ) -> Any:  # fmt: skip
        given = (kind, gates, state, cell, weight, bias, projection, reverse)
        states, last, kept = torch.ops.aotgrad.steps.default(*given, True)
        ctx.save_for_backward(states, kept, state, cell, weight, projection)
        ctx.given = kind, reverse
        return states, last

    @staticmethod
    def backward(ctx: Any, grad_states: Tensor, grad_cell: Tensor) -> Any:
        states, kept, state, cell, weight, projection = ctx.saved_tensors
        kind, reverse = ctx.given
        found, first, first_cell, for_weight, for_projection = torch.ops.aotgrad.steps_backward.default(
            kind, grad_states, grad_cell, states, kept, state, cell, weight, projection, reverse
        )
        of_input = of_state = found
        # Input and state differ in the gate of new alone: the reset is between them.
        if kind == "gru":  # reset, update, the state's part of new, new
            wide = state.shape[1]
            of_state, of_input = found[..., : 3 * wide], torch.cat([found[..., : 2 * wide], found[..., 3 * wide :]], 2)
        for_bias = of_state.sum((0, 1)) if ctx.needs_input_grad[5] else None
        first_cell = None if cell is None else first_cell
        return (
            None,
            of_input,
            first,
            first_cell,
            for_weight,
            for_bias,
            None if projection is None else for_projection,
            None,
        )


# -- by the kernels of libraries ------------------------------------------------------------------------------------


def _suits_onednn(given: Network) -> bool:
    if given.kind != "lstm" or given.input.device.type != "cpu" or not get_mkldnn_enabled():
        return False
    if given.states[0].shape[2] != given.states[1].shape[2] or 0 in given.input.shape:
        return False
    dtype = given.input.dtype
    return dtype is torch.float32 or (dtype in _HALVES and bool(getattr(torch.ops.mkldnn, _HALVES[dtype])()))


def _by_onednn(layer: Layer, input: Tensor) -> tuple[Tensor, ...]:
    assert layer.cell is not None
    matrices = layer.weights[:2]
    biases = layer.weights[2:] if layer.has_biases else [torch.zeros_like(matrix) for matrix in matrices]
    state, cell = layer.state.unsqueeze(0), layer.cell.unsqueeze(0)
    given = (input, *matrices, *biases, state, cell)
    if _followed(given):
        states, last, last_cell = _OneDNN.apply(layer.has_biases, layer.reverse, *given)
    else:
        # Without gradients the kernel keeps nothing, so that graphs can tell the sizes of its results.
        states, last, last_cell, _ = torch.ops.aten.mkldnn_rnn_layer.default(
            input.contiguous(), *matrices, *biases, state.contiguous(), cell.contiguous(), layer.reverse, [],
            library_kernels.LSTM_OF_ONEDNN, cell.shape[-1], 1, layer.has_biases, False, False, False,
        )  # fmt: skip
    return states, last, last_cell


class _OneDNN(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, has_biases: bool, reverse: bool, *given: Tensor) -> Any:
        input, *weights, state, cell = given
        results = torch.ops.aotgrad.lstm_layer.default(input, weights, state, cell, has_biases, reverse)
        ctx.save_for_backward(*given, *results)
        ctx.given = has_biases, reverse
        return results[:3]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        input, *weights, state, cell = ctx.saved_tensors[:7]
        results = ctx.saved_tensors[7:]
        found = torch.ops.aotgrad.lstm_layer_backward.default(
            gradients, input, weights, state, cell, *results, *ctx.given
        )
        return None, None, *found


def _by_cudnn(given: Network) -> tuple[Tensor, ...]:
    """The network by cuDNN, whose dropout draws from a state of its own, as in eager."""
    dropout = given.dropout if given.train and given.layers > 1 else 0.0
    options = given.layers, given.bidirectional, given.train, dropout
    if _followed((given.input, *given.weights, *given.states)):
        results = _CuDNN.apply(given.kind, options, len(given.weights), given.input, *given.weights, *given.states)
    else:
        results = _cudnn(dropout)(given.kind, given.input, given.weights, given.states, *options)
    output, last, last_cell, *_ = results
    return (output, last) if len(given.states) == 1 else (output, last, last_cell)


def _cudnn(dropout: float) -> Callable[..., Any]:
    ops = torch.ops.aotgrad
    return ops.cudnn_network_with_dropout.default if dropout else ops.cudnn_network.default


class _CuDNN(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kind: str, options: Any, count: int, input: Tensor, *given: Tensor) -> Any:
        *results, kept = _cudnn(options[-1])(kind, input, given[:count], given[count:], *options)
        ctx.save_for_backward(input, *given, results[0], kept)
        ctx.given = kind, options, count
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        input, *given, output, kept = ctx.saved_tensors
        kind, options, count = ctx.given
        found = torch.ops.aotgrad.cudnn_network_backward.default(
            gradients, kind, input, given[:count], given[count:], output, kept, *options
        )
        return None, None, None, *found
