"""Pooling where the window varies, as it does when it is as long as the tensor: ``max_pool1d(x, x.size(2))``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from capture.operators.dynamic_sizes.symint_operators import Size, define, defines
from capture.torch_versions import suggest_memory_format

aten = torch.ops.aten
Sizes = Sequence[Size]


def _spread(option: Sequence[Size], dims: int) -> list[Size]:
    return list(option) * dims if len(option) == 1 else list(option)


def _pooled(
    x: Tensor, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool, dims: int
) -> list[Size]:
    """The shape of the result of pooling: how often the window fits, partly too where ``ceil_mode`` says so."""
    # One number may be given for all dimensions, and no stride means the window's.
    options = [_spread(option, dims) for option in (kernel, stride or kernel, padding, dilation)]
    sizes = []
    for size, window, step, beside, gap in zip(x.shape[-dims:], *options, strict=True):
        room = size + 2 * beside - gap * (window - 1) - 1
        count = (room + (step - 1 if ceil_mode else 0)) // step + 1
        # A window that would begin in the padding behind the tensor is left out, as torch does.
        sizes.append(count - 1 if ceil_mode and (count - 1) * step >= size + beside else count)
    return [*x.shape[:-dims], *sizes]


def _like(x: Tensor, sizes: Sequence[Size], dtype: torch.dtype | None = None) -> Tensor:
    """An empty result, laid out as torch's pooling lays it out: channels last where the input has them so."""
    layout = suggest_memory_format(x) if x.dim() > 3 else torch.contiguous_format
    return torch.empty(tuple(sizes), dtype=dtype or x.dtype, device=x.device, memory_format=layout)


def _define_max_pool(name: str, dims: int) -> None:
    """Defines a pooling operator that gives places too, its backward, and the backward of that."""
    backward = define(
        getattr(aten, f"{name}_backward").default, lambda grad, self, *options, **named: _like(self, self.shape)
    )

    def fake_kernel(
        self: Tensor,
        kernel_size: Sizes,
        stride: Sizes = (),
        padding: Sizes = (0,),
        dilation: Sizes = (1,),
        ceil_mode: bool = False,
    ) -> tuple[Tensor, Tensor]:
        sizes = _pooled(self, kernel_size, stride, padding, dilation, ceil_mode, dims)
        return _like(self, sizes), _like(self, sizes, torch.int64)

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0], output[1])
        ctx.options = inputs[1:]
        # Places are whole numbers.
        ctx.mark_non_differentiable(output[1])

    def spread(ctx: Any, grad: Tensor, _: object) -> object:
        x, places = ctx.saved_tensors
        kernel, stride, padding, dilation, ceil_mode = ctx.options
        run = getattr(torch.ops.symint, f"{name}_backward")
        return run(grad, x, kernel, stride, padding, dilation, ceil_mode, places), *[None] * 5

    def keep_places(ctx: Any, inputs: Any, output: object) -> None:
        ctx.save_for_backward(inputs[-1])

    def collect(ctx: Any, grad: Tensor) -> object:
        places = ctx.saved_tensors[0]
        # Each maximum's gradient is read where the maximum came from.
        found = grad.flatten(-dims).gather(-1, places.flatten(-dims)).view_as(places)
        return found, *[None] * 7

    torch.library.register_autograd(backward, collect, setup_context=keep_places)
    forward = define(getattr(aten, name).default, fake_kernel)
    torch.library.register_autograd(forward, spread, setup_context=keep)


def _define_avg_pool(name: str, dims: int) -> None:
    """Defines an averaging operator, its backward, and the backward of that."""
    backward = define(
        getattr(aten, f"{name}_backward").default, lambda grad, self, *options, **named: _like(self, self.shape)
    )

    def fake_kernel(
        self: Tensor,
        kernel_size: Sizes,
        stride: Sizes = (),
        padding: Sizes = (0,),
        ceil_mode: bool = False,
        *rest: object,
    ) -> Tensor:
        return _like(self, _pooled(self, kernel_size, stride, padding, (1,), ceil_mode, dims))

    def keep(ctx: Any, inputs: Any, output: object) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.options = inputs[1:]

    def spread(ctx: Any, grad: Tensor) -> object:
        run = getattr(torch.ops.symint, f"{name}_backward")
        return run(grad, *ctx.saved_tensors, *ctx.options), *[None] * 6

    def keep_options(ctx: Any, inputs: Any, output: object) -> None:
        ctx.options = inputs[2:]

    def collect(ctx: Any, grad: Tensor) -> object:
        # Averaging is linear, so that the backward's backward is averaging again.
        return getattr(torch.ops.symint, name)(grad, *ctx.options), *[None] * 7

    torch.library.register_autograd(backward, collect, setup_context=keep_options)
    forward = define(getattr(aten, name).default, fake_kernel)
    torch.library.register_autograd(forward, spread, setup_context=keep)


@defines("max_pool2d_with_indices")
def max_pool2d() -> None:
    _define_max_pool("max_pool2d_with_indices", 2)


@defines("max_pool3d_with_indices")
def max_pool3d() -> None:
    _define_max_pool("max_pool3d_with_indices", 3)


@defines("avg_pool2d")
def avg_pool2d() -> None:
    _define_avg_pool("avg_pool2d", 2)


@defines("avg_pool3d")
def avg_pool3d() -> None:
    _define_avg_pool("avg_pool3d", 3)
