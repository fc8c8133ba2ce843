"""Fake kernels for functions of torch: their results, without running them.

torch's own rules for these go step by step: that takes long, and what they find holds for one number of steps.
A fake kernel takes what the operation takes, as fake tensors, and gives fake tensors with the history that the
operation would give them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch.nn import functional as nnf

from capture.torch_versions import DisablePythonDispatcher, nn

FakeKernel = Callable[..., Any]


def _recurrent(function: Callable[..., object], input: torch.Tensor, *given: Any) -> object:
    """The results of a recurrent network in one operation: their shapes, and a history that leads to all its inputs."""
    dtype = _dtype_of_states(input)
    if dtype is None or not isinstance(given[1], (list, tuple)) or input.dim() != 3:
        return function(input, *given)  # packed sequences, what torch refuses, and what autocast sees piece by piece
    first, weights, *_, bidirectional, batch_first = given
    states = (first,) if isinstance(first, torch.Tensor) else tuple(first)
    everything = sum(tensor.sum() for tensor in (input, *states, *weights)).to(dtype)  # has the history of all
    steps, batch = (input.transpose(0, 1) if batch_first else input).shape[:2]
    outputs = everything.expand(steps, batch, states[0].shape[2] * (1 + bidirectional)).contiguous()
    last = [everything.expand(state.shape).contiguous() for state in states]
    return (outputs.transpose(0, 1) if batch_first else outputs, *last)


def _dtype_of_states(input: torch.Tensor) -> torch.dtype | None:
    """The dtype of the results; None where it cannot be told.

    Under autocast it depends on the kernel: cuDNN's takes half precision, whatever is asked for.
    """
    if not torch.is_autocast_enabled(input.device.type):
        return input.dtype
    return torch.float16 if torch.backends.cudnn.is_acceptable(input) else None


def _dropped(
    function: Callable[..., object],
    input: torch.Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    train: bool = True,
) -> object:
    """The result of dropout, which is the tensor itself where eager gives that.

    It does in inference mode where nothing is dropped.  Something that is no tensor, or no probability, torch refuses.
    """
    fits = isinstance(input, torch.Tensor) and 0 <= p <= 1
    if fits and torch.is_inference_mode_enabled() and (not (training and train) or p == 0 or 0 in input.shape):
        return input
    with DisablePythonDispatcher():  # whose rule gives a copy of what nothing is dropped from
        if function is torch.dropout:
            return function(input, p, training and train)
        return function(input, p, training, inplace)


def _one_hot(function: Callable[..., Any], *args: object, **options: object) -> object:
    """A contiguous result: eager fills one in, where torch's rule for fakes keeps the order of what it compares."""
    return function(*args, **options).contiguous()


def _pooled(function: Callable[..., object], input: torch.Tensor, *args: object, **options: object) -> object:
    """The result of pooling over one dimension, contiguous where eager takes a kernel of its own.

    It does without gradients on CPUs.
    """
    pooled = function(input, *args, **options)
    if not isinstance(pooled, torch.Tensor) or pooled.device.type != "cpu":
        return pooled
    followed = torch.is_grad_enabled() and input.requires_grad
    known = all(isinstance(number, int) for number in (*pooled.shape, *pooled.stride()))
    return pooled.contiguous() if known and not followed else pooled


def _resized(
    function: Callable[..., torch.Tensor], input: torch.Tensor, *args: object, **options: object
) -> torch.Tensor:
    """Images of another size, of which eager refuses those without elements, before and after; an empty batch it takes.

    Torch's rules in Python, which fakes of sizes that vary follow, refuse none.  To ask here is to have other images
    captured anew.  Data-dependent sizes are left to the kernel that runs.
    """
    resized = function(input, *args, **options)
    sizes = (size for image in (input, resized) for size in image.shape[1:])
    if any(size == 0 for size in sizes if isinstance(size, int) or size.node.has_hint()):
        raise RuntimeError("images without elements")
    return resized


def _observed(
    function: Callable[..., object],
    input: torch.Tensor,
    observes: torch.Tensor,
    quantises: torch.Tensor,
    least: torch.Tensor,
    most: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    averaging: float,
    quant_min: int,
    quant_max: int,
    axis: int,
    by_channel: bool = False,
    *rest: object,
) -> object:
    """The result of a quantisation that observes; statistics that have no channels yet get them, as in eager."""
    if by_channel:
        for statistic in (least, most, scale, zero_point):
            if statistic.numel() != input.shape[axis]:
                statistic.resize_(input.shape[axis])
    numbers = averaging, quant_min, quant_max, axis, by_channel
    return function(input, observes, quantises, least, most, scale, zero_point, *numbers, *rest)


def _resizing() -> Iterator[Callable[..., object]]:
    """The functions, and the operators with their overloads, that resize images."""
    for name, function in vars(nn).items():
        if "upsample" in name and "backward" not in name:
            packet = getattr(torch.ops.aten, name)
            yield from (function, packet, *(getattr(packet, overload) for overload in packet.overloads()))


_FAKE_KERNELS: Mapping[Callable[..., object], FakeKernel] = {
    function: partial(rule, function)
    for rule, functions in (
        (_recurrent, (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)),
        (_dropped, (torch.dropout, nnf.dropout)),
        (_pooled, (torch.max_pool1d, nnf.max_pool1d)),
        (_one_hot, (nnf.one_hot,)),
        (_resized, (nnf.interpolate, nnf.upsample, nnf.upsample_nearest, nnf.upsample_bilinear)),
        (_resized, tuple(_resizing())),
        (_observed, (torch.fused_moving_avg_obs_fake_quant,)),
    )
    for function in functions
}


def fake_kernel(target: Any) -> FakeKernel:
    """The function to run on fake tensors in place of `target`: mostly `target` itself."""
    found: FakeKernel = _FAKE_KERNELS.get(target, target)
    return found
