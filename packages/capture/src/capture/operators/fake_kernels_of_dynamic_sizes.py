"""Fakes for results where torch's own answer holds for fewer sizes than the operator.

Torch asks which library will convolve, to know how the result is laid out, and the choice depends on the batch.  What
is convolved tells as well, whoever computes it: what is laid out plainly gives such a result, and on CPUs images of
which some have their channels last give images that have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from capture.torch_versions import FakeTensorMode, OpOverload, suggest_memory_format

Answer = Callable[..., Any]


def _has_symbolic_sizes(operand: object) -> bool:
    return isinstance(operand, Tensor) and any(isinstance(size, torch.SymInt) for size in operand.shape)


def _convolved(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[object],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[object], groups: int,
) -> Tensor | None:  # fmt: skip
    """The result of a convolution; None where torch has to tell."""
    layout = _layout(x, weight)
    if layout is None:
        return None
    options = [_spread(option, x.dim() - 2) for option in (stride, padding, dilation, output_padding)]
    sizes: list[Any] = [x.shape[0], weight.shape[1] * groups if transposed else weight.shape[0]]
    for size, window, step, beside, gap, more in zip(x.shape[2:], weight.shape[2:], *options, strict=True):
        reach = gap * (window - 1)
        if transposed:
            sizes.append((size - 1) * step - 2 * beside + reach + more + 1)
        else:
            sizes.append((size + 2 * beside - reach - 1) // step + 1)
    return _empty(x, sizes, layout) if all(size > 0 for size in sizes) else None


def _convolved_backward(
    grad: Tensor, x: Tensor, weight: Tensor, bias_sizes: Sequence[int] | None, stride: object, padding: object,
    dilation: object, transposed: bool, output_padding: object, groups: int, output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...] | None:  # fmt: skip
    """The gradients of a convolution; None where torch has to tell."""
    layout = _layout(grad, x, weight)
    if layout is None:
        return None
    of_x, of_weight, of_bias = output_mask
    return (
        _empty(grad, x.shape, layout) if of_x else None,
        _empty(grad, weight.shape, layout) if of_weight else None,
        grad.new_empty(tuple(bias_sizes or (grad.shape[1],))) if of_bias else None,
    )


def _empty(like: Tensor, sizes: Sequence[object], layout: torch.memory_format) -> Tensor:
    return torch.empty(tuple(sizes), dtype=like.dtype, device=like.device, memory_format=layout)


def _layout(*operands: Tensor) -> torch.memory_format | None:
    """The layout of all that a convolution gives; None where that is for torch to tell, or to complain of."""
    first = operands[0]
    dims, dtype = first.dim(), first.dtype
    alike = all((each.dim(), each.dtype, each.layout) == (dims, dtype, torch.strided) for each in operands)
    if dims < 3 or not alike:
        return None
    if dims == 3 or all(suggest_memory_format(each) is torch.contiguous_format for each in operands):
        return torch.contiguous_format
    return torch.channels_last if dims == 4 and first.device.type == "cpu" else None


def _spread(option: Sequence[object], dims: int) -> list[object]:
    return list(option) * (dims if len(option) == 1 else 1)


_ANSWERS: Mapping[OpOverload, Answer] = {
    torch.ops.aten.convolution.default: _convolved,
    torch.ops.aten.convolution_backward.default: _convolved_backward,
}


class SymbolicSizesMode(FakeTensorMode):
    """The mode that makes fakes, with answers of ours for operators where torch's would guard on a size."""

    def __torch_dispatch__(self, func: object, types: Any, args: Any = (), kwargs: Any = None) -> object:
        answer = None if self.shape_env is None else _ANSWERS.get(func)
        # Only with symbols: a number cannot be guarded on, so that torch's own answer holds.
        if answer is not None and _has_symbolic_sizes(args[0]):
            with self:
                result = answer(*args, **(kwargs or {}))
            if result is not None:
                return result
        return super().__torch_dispatch__(func, types, args, kwargs)
