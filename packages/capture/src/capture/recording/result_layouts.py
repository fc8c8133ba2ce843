"""Corrections of torch's fakes, where its kernels lay results out otherwise or give statistics of another precision.

Who asks for strides, or whether a tensor is contiguous, is told what the kernel will give.  Dynamic sizes are left
alone, because to look at their strides would fix them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from capture.recording.element_order import laid_out_by_elements
from capture.recording.indexed_order import laid_out_as_picked
from capture.recording.viewed_order import laid_out_as_viewed
from capture.torch_versions import OpOverload, aten, schema_of


def corrected(func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object], result: object) -> object:
    """The result of a fake kernel, laid out as the operator's own kernel lays it out."""
    rule = _CORRECTIONS.get(func)
    return laid_out_by_elements(schema_of, func, args, kwargs, result if rule is None else rule(result, *args))


def _as_products(result: torch.Tensor, x: object, y: object, *_: object) -> torch.Tensor:
    """Laid out as a product of the two operands is.

    Kernels go element by element; torch's rules in Python spread the operands out first.
    """
    operands = [each for each in (x, y) if isinstance(each, torch.Tensor)]
    if len(operands) < 2 or all(_known(each) and each.is_contiguous() for each in operands):
        return result
    return torch.empty_like(torch.mul(x, y), dtype=result.dtype)


def _as_products_on_cpus(result: torch.Tensor, x: torch.Tensor, y: object, *_: object) -> torch.Tensor:
    return _as_products(result, x, y) if x.device.type == "cpu" else result


def _as_scaled(result: torch.Tensor, x: torch.Tensor, y: torch.Tensor, *_: object) -> torch.Tensor:
    """Laid out as a product with powers of two, which are contiguous unless they are complex."""
    return result if result.is_complex() else torch.empty_like(torch.mul(x, _contiguous(y)), dtype=result.dtype)


def _angle(result: torch.Tensor, x: torch.Tensor, *_: object) -> torch.Tensor:
    """Contiguous where numbers are complex; torch's rule in Python says as the operand."""
    return _contiguous_on_cpus(result) if x.is_complex() else result


def _pooled_volumes(results: Sequence[torch.Tensor], x: torch.Tensor, *_: object) -> Sequence[torch.Tensor]:
    """One volume, laid out as it would be among others."""
    return results if x.dim() != 4 else tuple(_as_normalized(each[None], x[None])[0] for each in results)


def _gradient_of_elu(result: torch.Tensor, grad: torch.Tensor, *rest: object) -> torch.Tensor:
    return _as_products(result, grad, rest[-1])


def _contiguous(result: torch.Tensor, *_: object) -> torch.Tensor:
    return torch.empty_like(result, memory_format=torch.contiguous_format)


def _contiguous_on_cpus(result: torch.Tensor, *_: object) -> torch.Tensor:
    return _contiguous(result) if result.device.type == "cpu" else result


def _by_format_on_cpus(result: torch.Tensor, x: torch.Tensor, *_: object) -> torch.Tensor:
    """Laid out by the memory format that kernels see in the operand, which is contiguous where they see none."""
    return torch.empty_like(result, memory_format=_format_of(x)) if x.device.type == "cpu" and _known(x) else result


def _by_format_of_padded(result: torch.Tensor, _: object, x: torch.Tensor, *__: object) -> torch.Tensor:
    """Laid out by the format of what was padded; torch's rule in Python asks the gradient that arrives."""
    return _by_format_on_cpus(result, x)


def _with_statistics(result: Sequence[torch.Tensor], x: torch.Tensor, *rest: object) -> Sequence[torch.Tensor]:
    """The statistics of halves as exact as the weights beside them, on CPUs; fake kernels say halves, or floats."""
    if x.device.type != "cpu" or x.dtype not in (torch.float16, torch.bfloat16):
        return result
    beside = next((given.dtype for given in rest if isinstance(given, torch.Tensor)), x.dtype)
    return result[0], *(tensor.to(beside) for tensor in result[1:3]), *result[3:]


def _normalized_by_groups(result: Sequence[torch.Tensor], x: torch.Tensor, *rest: object) -> Sequence[torch.Tensor]:
    """Laid out by the format of the operand; from torch 2.14 on the fake says contiguous."""
    result = _with_statistics(result, x, *rest)
    return _by_format_on_cpus(result[0], x), *result[1:]


def _normalized(result: Sequence[torch.Tensor], x: torch.Tensor, *rest: object) -> Sequence[torch.Tensor]:
    """Laid out as batch norm lays it out, with its statistics."""
    result = _with_statistics(result, x, *rest)
    return _as_normalized(result[0], x), *result[1:]


def _gradient_of_normalized(
    result: Sequence[torch.Tensor | None], _: object, x: torch.Tensor, *__: object
) -> Sequence[torch.Tensor | None]:
    """Laid out as the operand of the batch norm is read, however what arrives lies; a fake says as what arrives."""
    return None if result[0] is None else _as_normalized(result[0], x), *result[1:]


def _as_normalized(result: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Laid out as batch norm does: it asks first whether the operand is contiguous, by channels or not."""
    innermost = _INNERMOST.get(x.dim())
    if x.device.type != "cpu" or not _known(x):
        return result
    if innermost is None or x.is_contiguous() or not x.is_contiguous(memory_format=innermost):
        return _by_format_on_cpus(result, x)
    return torch.empty_like(result, memory_format=innermost)


def _as_noise(result: torch.Tensor, grad: torch.Tensor, _: object, noise: torch.Tensor, *rest: object) -> torch.Tensor:
    """Laid out as a product of noise and gradient.

    In training the kernel multiplies in this order; torch's rule in Python has the other.
    """
    is_training = rest[2]
    return _as_products(result, noise, grad) if is_training else result


def _as_it_lies(result: torch.Tensor, x: torch.Tensor, *_: object) -> torch.Tensor:
    """Laid out as the operand, without its gaps; torch's rule in Python says contiguous."""
    return torch.empty_like(x, dtype=result.dtype)


def _in_copied_memory(result: torch.Tensor, x: torch.Tensor, *_: object) -> torch.Tensor:
    """In a copy of all the memory that holds the operand, at the operand's place, unless that has elements twice.

    Torch's cache of fakes forgets the place and the memory.
    """
    if not _known(x) or not isinstance(x.storage_offset(), int):
        return result
    if any(size > 1 and not stride for size, stride in zip(x.shape, x.stride(), strict=True)):
        return torch.empty_like(x)
    held = x.untyped_storage().nbytes()
    if not x.storage_offset() and held == x.numel() * x.element_size():
        return result
    return x.new_empty(held // x.element_size()).as_strided(x.shape, x.stride(), x.storage_offset())


def _rolled(result: torch.Tensor, x: torch.Tensor, shifts: Sequence[object], dims: Sequence[int] = ()) -> torch.Tensor:
    """Laid out as what is put together of two parts, of which one may be empty, on CPUs.

    Torch's rule in Python picks indices.
    """
    steps = [shift for shift in shifts if isinstance(shift, int)]
    is_known = _known(x) and len(steps) == len(dims)
    if x.device.type != "cpu" or not is_known or not x.numel() or not dims or _lies_plainly(x):
        return result
    for shift, dim in zip(steps, dims, strict=True):
        start = -shift % x.size(dim)
        x = torch.cat([x.narrow(dim, start, x.size(dim) - start), x.narrow(dim, 0, start)], dim)
    return x


def _each_contiguous_on_cpus(results: Sequence[torch.Tensor], *_: object) -> object:
    return tuple(map(_contiguous_on_cpus, results))


def _known(x: torch.Tensor) -> bool:
    """True if no size or stride is a symbol: to look at one would fix it."""
    return all(isinstance(number, int) for number in (*x.shape, *x.stride()))


def _lies_plainly(x: torch.Tensor) -> bool:
    """True if it is contiguous, and no stride along a single element makes it look as if channels were innermost."""
    return x.is_contiguous() and _format_of(x) is torch.contiguous_format


_INNERMOST = {4: torch.channels_last, 5: torch.channels_last_3d}
"""Formats with the channels innermost, by the number of dimensions."""


def _format_of(x: torch.Tensor) -> torch.memory_format:
    """The format that torch's kernels see in strides, which may have holes."""
    innermost = _INNERMOST.get(x.dim())
    if innermost is None:
        return torch.contiguous_format
    least, order = 1, (1, *range(x.dim() - 1, 1, -1), 0)
    for dim in order:
        is_ambiguous = dim == 0 and least == x.stride(1)  # one channel, or images of one element
        if x.stride(dim) < least or not x.size(dim) or is_ambiguous:
            return torch.contiguous_format
        least = x.stride(dim) * x.size(dim)
    return innermost


_CORRECTIONS: dict[object, Callable[..., object]] = {
    **dict.fromkeys(
        (
            *(aten.copysign.Tensor, aten.heaviside.default, aten.logaddexp.default, aten.xlogy.Tensor),
            *(aten.logical_and.default, aten.logical_or.default, aten.logical_xor.default),
            *(aten.div.Tensor_mode, aten.floor_divide.default, aten.special_xlog1py.default),
            *(aten.hardsigmoid_backward.default, aten.hardswish_backward.default, aten.hardtanh_backward.default),
            *(aten.logit_backward.default, aten.softplus_backward.default),
        ),
        _as_products,
    ),
    aten.elu_backward.default: _gradient_of_elu,
    **dict.fromkeys(
        (aten.index_fill.int_Scalar, aten.index_fill.int_Tensor, aten.log_sigmoid_backward.default), _as_it_lies
    ),
    **dict.fromkeys((aten.normal.Tensor_Tensor, aten.normal.float_Tensor), _contiguous_on_cpus),
    **dict.fromkeys(
        (
            *(aten.pow.Scalar, aten.isin.Tensor_Tensor, aten.isin.Tensor_Scalar),
            *(aten.glu_backward.default, aten.grid_sampler_2d.default),
        ),
        _contiguous,
    ),
    aten.replication_pad2d_backward.default: _by_format_of_padded,
    aten.view.default: laid_out_as_viewed,
    aten._unsafe_view.default: laid_out_as_viewed,
    **dict.fromkeys(
        (
            *(aten.as_strided_scatter.default, aten.diagonal_scatter.default),
            *(aten.select_scatter.default, aten.slice_scatter.default),
        ),
        _in_copied_memory,
    ),
    aten.roll.default: _rolled,
    aten.index.Tensor: laid_out_as_picked,
    aten.ldexp.Tensor: _as_scaled,
    aten.angle.default: _angle,
    aten.max_pool3d_with_indices.default: _pooled_volumes,
    aten.log_sigmoid_forward.default: _each_contiguous_on_cpus,
    aten.rrelu_with_noise.default: _contiguous,
    aten.rrelu_with_noise_backward.default: _as_noise,
    **dict.fromkeys(
        (
            *(aten.upsample_nearest2d.default, aten.upsample_nearest3d.default, aten.upsample_bilinear2d.default),
            *(aten._upsample_nearest_exact2d.default, aten._upsample_nearest_exact3d.default),
            *(aten.upsample_bicubic2d.default, aten.upsample_trilinear3d.default),
            *(aten._upsample_bilinear2d_aa.default, aten._upsample_bicubic2d_aa.default),
        ),
        _by_format_on_cpus,
    ),
    **dict.fromkeys(
        (
            *(aten._softmax_backward_data.default, aten._log_softmax_backward_data.default),
            *(aten.mse_loss_backward.default, aten.huber_loss_backward.default, aten.smooth_l1_loss_backward.default),
        ),
        _contiguous_on_cpus,
    ),
    aten.native_layer_norm.default: _with_statistics,
    aten.native_group_norm.default: _normalized_by_groups,
    aten.native_dropout_backward.default: _as_products_on_cpus,
    **dict.fromkeys(
        (aten.max_unpool2d.default, aten.channel_shuffle.default, aten.native_channel_shuffle.default),
        _by_format_on_cpus,
    ),
    **dict.fromkeys(
        (
            *(aten.native_batch_norm.default, aten._native_batch_norm_legit.default),
            *(aten._native_batch_norm_legit.no_stats, aten._native_batch_norm_legit_no_training.default),
            aten._native_batch_norm_legit_functional.default,
        ),
        _normalized,
    ),
    aten.native_batch_norm_backward.default: _gradient_of_normalized,
}
