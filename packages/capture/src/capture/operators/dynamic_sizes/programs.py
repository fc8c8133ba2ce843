"""Functions of torch's that take sizes for constants, as programs over functions that do not.

Where a size varies such a program is evaluated in place of the function: it computes the same, bit by bit, laid out the
same; or it gives ``NotImplemented``, and the function is taken for what it is.  What it raises is not what the function
would raise: CPython then runs the function itself.

Each program has the function's parameters, by its names.  Two tables: programs that are right where a size varies are
right for numbers, too; those of ``PROGRAMS_OF_NUMBERS`` are needed for numbers alone, as the function itself takes
sizes that vary.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as nnf

from capture.torch_versions import aten

Program = Callable[..., Any]
PROGRAMS: dict[object, Program] = {}
"""Programs used where a size or a number varies."""
PROGRAMS_OF_NUMBERS: dict[object, Program] = {}
"""Programs used where a number varies."""


def _in_place_of(*functions: object) -> Callable[[Program], Program]:
    return functools.partial(_register, PROGRAMS, functions)


def _for_dynamic_numbers(*functions: object) -> Callable[[Program], Program]:
    return functools.partial(_register, PROGRAMS_OF_NUMBERS, functions)


def _register(table: dict[object, Program], functions: Sequence[object], program: Program) -> Program:
    table.update(dict.fromkeys(functions, program))
    return program


_unsafe_view = aten._unsafe_view


def _of_its_own(made: Tensor, sizes: Sequence[int]) -> object:
    """The tensor in another shape, and no view of anything: nobody else has it."""
    return _unsafe_view(made, sizes)


@_in_place_of(torch.kron, torch.Tensor.kron)
def kron(self: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: dimensions by turns of the one and the other, the shorter one's missing ones in front."""
    dims = max(self.dim(), other.dim())
    ones, others = [1] * (dims - self.dim()) + list(self.shape), [1] * (dims - other.dim()) + list(other.shape)
    # (a, 1, b, 1) times (1, c, 1, d): every product of two elements, which then is seen as (a * c, b * d).
    rows = self.reshape([size for one in ones for size in (one, 1)])
    columns = other.reshape([size for one in others for size in (1, one)])
    return _of_its_own(rows * columns, [one * another for one, another in zip(ones, others, strict=True)])


@_in_place_of(torch.take_along_dim, torch.Tensor.take_along_dim)
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> object:
    """``gather``, with both tensors spread over one another but for the dimension that is picked from."""
    if indices.dtype is not torch.int64:  # which the function refuses, and `gather` may take
        return NotImplemented
    if dim is None:
        return input.reshape(-1).gather(0, indices.reshape(-1))
    dim = dim + input.dim() if dim < 0 else dim
    wide, places = list(input.shape), list(indices.shape)
    for other, (size, length) in enumerate(zip(input.shape, indices.shape, strict=True)):
        # Both are spread over one another, but not along the dimension that is picked from.
        if other != dim:
            wide[other] = places[other] = length if size == 1 else size
    return input.expand(wide).gather(dim, indices.expand(places))


@_in_place_of(torch.diff, torch.Tensor.diff)
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> object:
    """Differences of neighbours, `n` times over; of truths whether the two differ."""
    parts = [part for part in (prepend, input, append) if part is not None]
    if n < 0 or any(part.dim() != input.dim() for part in parts):  # the function refuses them
        return NotImplemented
    input = torch.cat(parts, dim) if len(parts) > 1 else input
    size = input.size(dim)
    if n == 0 or n >= size:
        # Of none the function gives a copy; of as many differences as elements or more, nothing.
        return torch.zeros_like(input).copy_(input) if n == 0 else input.narrow(dim, 0, 0)
    for _ in range(n):
        size = size - 1
        later, earlier = input.narrow(dim, 1, size), input.narrow(dim, 0, size)
        input = later.logical_xor(earlier) if input.dtype is torch.bool else later - earlier
    return input


@_in_place_of(torch.combinations)
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> object:
    """The items at the places of all combinations, for which there is an operator of ours."""
    if input.dim() != 1 or r < 1:
        return NotImplemented
    places = torch.ops.symint.combinations_of(input.shape[0], r, with_replacement, device=input.device)
    return input[places]


@_in_place_of(torch.unravel_index)
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> object:
    """The position along each dimension that a flat position stands for."""
    sizes = [shape] if isinstance(shape, int) else list(shape)
    if indices.is_floating_point() or indices.is_complex() or indices.dtype is torch.bool or min(sizes) < 0:
        return NotImplemented
    # Row-major strides; the position along a dimension is the quotient by its stride, within its size.
    steps = [1]
    for size in reversed(sizes[1:]):
        steps.insert(0, steps[0] * size)
    places = [indices // step % size for step, size in zip(steps, sizes, strict=True)]
    return torch.stack(places, -1).unbind(-1)


@_in_place_of(torch.gradient)
def gradient(
    input: Tensor, *, spacing: object = 1, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Slopes along each dimension, where all steps are numbers."""
    dims = range(input.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    if edge_order not in (1, 2) or len({dim % input.dim() for dim in dims}) < len(dims):  # the function refuses them
        return NotImplemented
    steps = spacing if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    if any(isinstance(step, Tensor) for step in steps):
        return NotImplemented
    return tuple(slope(input, step, along, edge_order) for along, step in zip(dims, steps, strict=True))


def slope(x: Tensor, step: float, dim: int, edge_order: int) -> Tensor:
    """The slope along a dimension by differences, in the order in which torch rounds them."""
    size = x.size(dim)
    # Central differences; at the ends one-sided ones, of the first order or the second.
    inner = (x.narrow(dim, 2, size - 2) - x.narrow(dim, 0, size - 2)) / (2 * step)
    first, second = x.narrow(dim, 0, 1), x.narrow(dim, 1, 1)
    last, last_but_one = x.narrow(dim, size - 1, 1), x.narrow(dim, size - 2, 1)
    if edge_order == 1:
        return torch.cat([(second - first) / step, inner, (last - last_but_one) / step], dim)
    third, last_but_two = x.narrow(dim, 2, 1), x.narrow(dim, size - 3, 1)
    before = (first * -1.5 + second * 2 - third * 0.5) / step
    behind = (last_but_two * 0.5 - last_but_one * 2 + last * 1.5) / step
    return torch.cat([before, inner, behind], dim)


@_in_place_of(torch.block_diag)
def block_diag(*tensors: Tensor) -> Tensor:
    """The blocks along the diagonal of a matrix of zeros, put together of rows."""
    blocks = [block.reshape(1, -1) if block.dim() < 2 else block for block in tensors]
    # Each block between zeros to its left and right, then one below the other.
    width, rows, before = sum(block.shape[1] for block in blocks), [], 0
    for block in blocks:
        after = before + block.shape[1]
        left, right = block.new_zeros(block.shape[0], before), block.new_zeros(block.shape[0], width - after)
        rows.append(torch.cat([left, block, right], 1))
        before = after
    return torch.cat(rows)


@_in_place_of(nnf.affine_grid)
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> object:
    """The places of all pixels, as rows of a matrix with a one at the end, times the matrix of each image."""
    if not theta.is_floating_point():
        return NotImplemented
    count, _, *sides = size
    dims = len(sides)
    places = []
    for dim, side in enumerate(sides):
        shape = [1] * dims
        shape[dim] = side
        places.append(_from_minus_one(theta, side, align_corners).reshape(shape).expand(sides))
    ones = torch.ones(sides, dtype=theta.dtype, device=theta.device)
    # The grid's last dimension counts (x, y, z), sizes count (depth, height, width).
    base = torch.stack([*reversed(places), ones], -1).expand(count, *sides, dims + 1)
    return _of_its_own(base.reshape(count, -1, dims + 1).bmm(theta.transpose(1, 2)), [count, *sides, dims])


def _from_minus_one(like: Tensor, side: int, align_corners: bool | None) -> Tensor:
    """Places from -1 to 1 for one side of an image; the middle where it is one pixel long."""
    if side <= 1:
        return torch.zeros(1, dtype=like.dtype, device=like.device)
    # -1 and 1 are the middles of the outermost pixels with ``align_corners``, and their outer edges without.
    places = torch.linspace(-1, 1, side, dtype=like.dtype, device=like.device)
    return places if align_corners else places * (side - 1) / side


@_for_dynamic_numbers(torch.diagonal, torch.Tensor.diagonal)
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The main diagonal of what is right of the first columns, or below the first rows."""
    if offset >= 0:
        return input.narrow(dim2, offset, input.size(dim2) - offset).diagonal(0, dim1, dim2)
    return input.narrow(dim1, -offset, input.size(dim1) + offset).diagonal(0, dim1, dim2)


# -- windows ---------------------------------------------------------------------------------------------------------


@_for_dynamic_numbers(torch.adaptive_avg_pool1d)
def adaptive_avg_pool1d(input: Tensor, output_size: int | Sequence[int]) -> Tensor:
    """``adaptive_avg_pool2d`` over an image of one line."""
    return nnf.adaptive_avg_pool2d(input.unsqueeze(-2), (1, *spread(output_size, 1))).squeeze(-2)


@_for_dynamic_numbers(torch.avg_pool1d)
def avg_pool1d(
    input: Tensor,
    kernel_size: object,
    stride: object = (),
    padding: object = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """``avg_pool2d`` over an image of one line."""
    window, step = (1, *spread(kernel_size, 1)), (1, *spread(stride or kernel_size, 1))
    beside = (0, *spread(padding, 1))
    return nnf.avg_pool2d(input.unsqueeze(-2), window, step, beside, ceil_mode, count_include_pad).squeeze(-2)


@_in_place_of(nnf.max_pool1d)
def max_pool1d(
    input: Tensor,
    kernel_size: object,
    stride: object = None,
    padding: object = 0,
    dilation: object = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> object:
    """``max_pool2d`` over an image of one line; the kernel for CPUs without gradients gives no view."""
    if not (return_indices or input.is_floating_point()):  # which the function refuses, and `max_pool2d` takes
        return NotImplemented
    window, step = (1, *spread(kernel_size, 1)), (1, *spread(stride or kernel_size, 1))
    beside, gap = (0, *spread(padding, 1)), (1, *spread(dilation, 1))
    pool: Any = nnf.max_pool2d  # annotated for other arguments than it takes
    pooled = pool(input.unsqueeze(-2), window, step, beside, gap, ceil_mode, return_indices)
    if return_indices:
        return tuple(image.squeeze(-2) for image in pooled)
    line = pooled.squeeze(-2)
    is_view = input.device.type != "cpu" or (torch.is_grad_enabled() and input.requires_grad)
    return line if is_view else _of_its_own(line, line.shape)


@_for_dynamic_numbers(nnf.max_pool2d)
def max_pool2d(
    input: Tensor,
    kernel_size: object,
    stride: object = None,
    padding: object = 0,
    dilation: object = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> object:
    run = torch.ops.symint.max_pool2d_with_indices
    return _max_pool(run, 2, input, (kernel_size, stride or kernel_size, padding, dilation), ceil_mode, return_indices)


@_for_dynamic_numbers(nnf.max_pool3d)
def max_pool3d(
    input: Tensor,
    kernel_size: object,
    stride: object = None,
    padding: object = 0,
    dilation: object = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> object:
    run = torch.ops.symint.max_pool3d_with_indices
    return _max_pool(run, 3, input, (kernel_size, stride or kernel_size, padding, dilation), ceil_mode, return_indices)


def _max_pool(
    run: Any, dims: int, x: Tensor, options: Sequence[object], ceil_mode: bool, return_indices: bool
) -> object:
    pooled, places = run(x, *[spread(option, dims) for option in options], ceil_mode)
    return (pooled, places) if return_indices else pooled


@_for_dynamic_numbers(nnf.avg_pool2d)
def avg_pool2d(
    input: Tensor,
    kernel_size: object,
    stride: object = None,
    padding: object = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    options = [spread(option, 2) for option in (kernel_size, stride or kernel_size, padding)]
    return torch.ops.symint.avg_pool2d(input, *options, ceil_mode, count_include_pad, divisor_override)


@_for_dynamic_numbers(nnf.avg_pool3d)
def avg_pool3d(
    input: Tensor,
    kernel_size: object,
    stride: object = None,
    padding: object = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    options = [spread(option, 3) for option in (kernel_size, stride or kernel_size, padding)]
    return torch.ops.symint.avg_pool3d(input, *options, ceil_mode, count_include_pad, divisor_override)


def spread(option: Any, dims: int) -> list[object]:
    """An option for each dimension, of which one may be given for all."""
    if isinstance(option, int):
        return [option] * dims
    return list(option) * (dims if len(option) == 1 else 1)
