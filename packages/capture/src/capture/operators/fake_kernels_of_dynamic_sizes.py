"""Fakes for results where torch's own answer holds for fewer sizes than the operator.

Torch asks which library will convolve, to know how the result is laid out, and the choice depends on the batch.  What
is convolved tells as well, whoever computes it: what is laid out plainly gives such a result, and on CPUs images of
which some have their channels last give images that have.

Views are here because torch's rule in Python makes one size after the other by dividing what is left: where 4 was asked
for, the result has `h // (h // 4)`, every question after that is about all of it, and a few windows cut out of images
and put back took minutes.  Kernels take the sizes that are asked for, and so does the rule here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from capture.torch_versions import FakeTensorMode, OpOverload, aten, suggest_memory_format

if TYPE_CHECKING:  # sizes that do not vary need no sympy
    import sympy

Answer = Callable[..., Any]
Size: TypeAlias = int | torch.SymInt


def _has_symbolic_sizes(operand: object) -> bool:
    return isinstance(operand, Tensor) and any(isinstance(size, torch.SymInt) for size in operand.shape)


def _convolved(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[object],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[object], groups: int,
) -> Tensor | None:  # fmt: skip
    """The result of a convolution; None where torch has to tell."""
    layout = _layout(x, weight)
    channels = (weight.shape[0], weight.shape[1] * groups)
    given, made = channels if transposed else channels[::-1]
    if layout is None or x.shape[1] != given or (bias is not None and tuple(bias.shape) != (made,)):
        return None
    options = [_spread(option, x.dim() - 2) for option in (stride, padding, dilation, output_padding)]
    sizes: list[Any] = [x.shape[0], made]
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


def _viewed(x: Tensor, shape: Sequence[Size]) -> Tensor | None:
    """The view of a fake tensor in another shape; None where torch has to tell, or to complain of."""
    numel = x.numel()
    if (
        x.layout != torch.strided
        or not x.dim()
        or not shape
        or not _have_hints((numel, *x.stride(), *shape))
        or numel == 0
    ):
        return None
    sizes = _complete(numel, shape)
    if sizes is None or math.prod(map(_now, sizes)) != _now(numel):
        return None
    strides = _strides_of_view(x.shape, x.stride(), sizes)
    if strides is None:  # torch's rule overlooks that where a size is 1
        raise ValueError(f"no view of strides {tuple(x.stride())} has the sizes {tuple(sizes)}; reshape copies")
    return x.as_strided(sizes, strides)


def _complete(numel: Size, shape: Sequence[Size]) -> list[Size] | None:
    """The sizes, of which one may be for us to find; None where they do not fit."""
    unknown = [dim for dim, size in enumerate(shape) if isinstance(size, int) and size == -1]
    if not unknown:
        return list(shape)
    known = math.prod(size for dim, size in enumerate(shape) if dim != unknown[0])
    if len(unknown) > 1 or known == 0 or numel % known != 0:
        return None
    return [numel // known if dim == unknown[0] else size for dim, size in enumerate(shape)]


def _strides_of_view(old: Sequence[Size], strides: Sequence[Size], sizes: Sequence[Size]) -> list[Size] | None:
    """The strides of a view; None where there is no such view.

    Memory without gaps is a chunk, which whole sizes have to fill, from the innermost outwards.  Which chunks there are
    is seen of the sizes at hand; what is asked is only that each is one, and that those sizes fill it.  That two chunks
    are not one is not asked: sizes that fill both fill one as well, with the same strides.
    """
    found: list[Size] = []
    left = list(sizes)
    base: Size = strides[-1]
    length: Size = 1
    for dim in range(len(old) - 1, -1, -1):
        length = length * old[dim]
        if dim and (old[dim - 1] == 1 or _equal(strides[dim - 1], length * base)):
            continue
        filled: Size = 1
        while left and (_now(filled) < _now(length) or left[-1] == 1):
            found.append(filled * base)
            filled = filled * left.pop()
        if not _equal(filled, length):
            return None
        base, length = strides[dim - 1], 1
    return None if left else found[::-1]


def _equal(one: Size, other: Size) -> bool:
    """True if two numbers are equal at the sizes at hand, in which case they have to be at others."""
    return _now(one) == _now(other) and bool(one == other)


def _now(number: Size) -> int:
    """The number at the sizes at hand."""
    return int(number.node.hint) if isinstance(number, torch.SymInt) else number


def _have_hints(numbers: Sequence[Size]) -> bool:
    """True if all of these numbers are known of the sizes at hand: none is data-dependent."""
    return all(isinstance(number, int) or number.node.has_hint() for number in numbers)


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
    aten.view.default: _viewed,
    aten._unsafe_view.default: _viewed,
}


_LEVELS = 4  # of operations in a size: what a convolution leaves has as many


class SymbolicSizesMode(FakeTensorMode):
    """The mode that makes fakes, with answers of ours for operators where torch's would guard on a size."""

    cache_enabled: bool

    def __torch_dispatch__(self, func: object, types: Any, args: Any = (), kwargs: Any = None) -> object:
        # Only with symbols: a number cannot be guarded on, so that torch's own answer holds.
        if self.shape_env is None or not _has_symbolic_sizes(args[0] if args else None):
            return super().__torch_dispatch__(func, types, args, kwargs)
        answer = _ANSWERS.get(func)
        if answer is not None:
            with self:
                result = answer(*args, **(kwargs or {}))
            if result is not None:
                return result
        return self._computed(func, types, args, kwargs)

    def _computed(self, func: object, types: Sequence[type], args: Sequence[Tensor], kwargs: object) -> object:
        """Torch's answer, computed where sizes are deep, of which it is not quicker to remember any: torch makes what
        it remembers anew by its sizes, and asks of those whether they fit the memory."""
        remembers = self.cache_enabled
        self.cache_enabled = remembers and not any(_is_deep(size) for size in args[0].shape)
        try:
            return super().__torch_dispatch__(func, types, args, kwargs)
        finally:
            self.cache_enabled = remembers


def _is_deep(size: int | torch.SymInt) -> bool:
    return isinstance(size, torch.SymInt) and _has_levels(size.node.expr, _LEVELS + 1)


def _has_levels(expression: sympy.Basic, levels: int) -> bool:
    return levels == 0 or any(_has_levels(part, levels - 1) for part in expression.args)
