"""Stand-ins for results where torch's own answer holds for fewer sizes than the operator.

Torch asks which library will convolve, to know how the result is laid out, and the choice depends on the batch.  Where
what is convolved is laid out plainly, so is the result, whoever computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensorMode

Answer = Callable[..., Any]
_ANSWERS: dict[OpOverload, Answer] = {}


class ToldOverSizes(FakeTensorMode):
    """Stand-ins whose sizes may vary."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = None if self.shape_env is None else _ANSWERS.get(func)
        if answer is not None and _varies(args[0]):
            with self:
                told = answer(*args, **(kwargs or {}))
            if told is not None:
                return told
        return super().__torch_dispatch__(func, types, args, kwargs)


def _varies(operand: Any) -> bool:
    return isinstance(operand, Tensor) and any(isinstance(size, torch.SymInt) for size in operand.shape)


def _answers(operator: OpOverload) -> Callable[[Answer], Answer]:
    def register(answer: Answer) -> Answer:
        _ANSWERS[operator] = answer
        return answer

    return register


@_answers(torch.ops.aten.convolution.default)
def _convolved(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[Any],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[Any], groups: int,
) -> Tensor | None:  # fmt: skip
    if not _is_plain(x, weight):
        return None
    options = [_spread(option, x.dim() - 2) for option in (stride, padding, dilation, output_padding)]
    sizes: list[Any] = [x.shape[0], weight.shape[1] * groups if transposed else weight.shape[0]]
    for size, window, step, beside, gap, more in zip(x.shape[2:], weight.shape[2:], *options, strict=True):
        reach = gap * (window - 1)
        if transposed:
            sizes.append((size - 1) * step - 2 * beside + reach + more + 1)
        else:
            sizes.append((size + 2 * beside - reach - 1) // step + 1)
    return x.new_empty(sizes) if all(size > 0 for size in sizes) else None


@_answers(torch.ops.aten.convolution_backward.default)
def _convolved_backward(
    grad: Tensor, x: Tensor, weight: Tensor, bias_sizes: Sequence[int] | None, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int, output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...] | None:  # fmt: skip
    if not _is_plain(grad, x, weight):
        return None
    shapes = (x.shape, weight.shape, bias_sizes or (grad.shape[1],))
    return tuple(
        grad.new_empty(tuple(shape)) if wanted else None for shape, wanted in zip(shapes, output_mask, strict=True)
    )


def _is_plain(*operands: Tensor) -> bool:
    """Batched, strided, and not channels last; of one dtype, as torch complains of others."""
    dims, dtype = operands[0].dim(), operands[0].dtype
    return dims > 2 and all(
        operand.dim() == dims
        and operand.dtype is dtype
        and operand.layout is torch.strided
        and (dims == 3 or suggest_memory_format(operand) is torch.contiguous_format)
        for operand in operands
    )


def _spread(option: Sequence[Any], dims: int) -> list[Any]:
    return list(option) * (dims if len(option) == 1 else 1)
