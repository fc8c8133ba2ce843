"""The order in which the dimensions of a result lie in memory, where torch's fakes tell another one than its kernels.

Who asks for strides, or whether a tensor is contiguous, is told what the kernel will give.  Dynamic sizes are left
alone, because to look at their strides would fix them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from capture.torch_versions import OpOverload, aten


def corrected(func: OpOverload, args: Sequence[object], result: object) -> object:
    """What a fake kernel gave, laid out as the operator's own kernel lays it out."""
    rule = _CORRECTIONS.get(func)
    return result if rule is None else rule(result, *args)


def _as_products(result: torch.Tensor, x: object, y: object, *_: object) -> torch.Tensor:
    """Element by element, as all such kernels; torch's rules in Python spread the operands out first."""
    operands = [each for each in (x, y) if isinstance(each, torch.Tensor)]
    if len(operands) < 2 or not all(map(_known, operands)) or all(each.is_contiguous() for each in operands):
        return result
    return torch.empty_like(torch.mul(x, y), dtype=result.dtype)


def _contiguous(result: torch.Tensor, *_: object) -> torch.Tensor:
    return torch.empty_like(result, memory_format=torch.contiguous_format) if _known(result) else result


def _contiguous_on_cpus(result: torch.Tensor, x: torch.Tensor, *_: object) -> torch.Tensor:
    return _contiguous(result) if x.device.type == "cpu" else result


def _with_channels_innermost(result: torch.Tensor, x: torch.Tensor, *_: object) -> torch.Tensor:
    if x.device.type != "cpu" or not _known(x) or not _has_channels_innermost(x):
        return result
    return torch.empty_like(result, memory_format=torch.channels_last)


def _normalized(result: Any, x: torch.Tensor, *rest: object) -> object:
    """Batch norm's kernels for CPUs lay out what they normalise by its own statistics by channels, or contiguously."""
    training = next((value for value in rest if isinstance(value, bool)), False)
    if not training or x.device.type != "cpu" or not _known(x) or _has_channels_innermost(x):
        return result
    return _contiguous(result[0]), *result[1:]


def _as_it_lies(result: torch.Tensor, x: torch.Tensor, *_: Any) -> torch.Tensor:
    """As the operand lies, without its gaps; torch's rule in Python says contiguous."""
    return torch.empty_like(x, dtype=result.dtype) if _known(x) else result


def _rolled(result: torch.Tensor, x: torch.Tensor, shifts: Sequence[object], dims: Sequence[int] = ()) -> torch.Tensor:
    """On CPUs as what is put together of two parts, of which one may be empty; torch's rule in Python picks indices."""
    steps = [shift for shift in shifts if isinstance(shift, int)]
    is_known = _known(x) and len(steps) == len(dims)
    if x.device.type != "cpu" or not is_known or not x.numel() or not dims or x.is_contiguous():
        return result
    for shift, dim in zip(steps, dims, strict=True):
        start = -shift % x.size(dim)
        x = torch.cat([x.narrow(dim, start, x.size(dim) - start), x.narrow(dim, 0, start)], dim)
    return x


def _each_contiguous_on_cpus(results: Sequence[torch.Tensor], x: torch.Tensor, *_: object) -> object:
    return tuple(_contiguous_on_cpus(result, x) for result in results)


def _known(x: torch.Tensor) -> bool:
    return all(isinstance(number, int) for number in (*x.shape, *x.stride()))


def _has_channels_innermost(x: torch.Tensor) -> bool:
    return x.dim() == 4 and x.stride(1) <= min(x.stride(2), x.stride(3)) and x.stride(0) >= x.stride(2) >= x.stride(3)


_CORRECTIONS: dict[object, Callable[..., object]] = {
    **dict.fromkeys(
        (
            *(aten.copysign.Tensor, aten.heaviside.default, aten.logaddexp.default, aten.xlogy.Tensor),
            *(aten.logical_and.default, aten.logical_or.default, aten.logical_xor.default),
            *(aten.div.Tensor_mode, aten.floor_divide.default, aten.special_xlog1py.default),
        ),
        _as_products,
    ),
    aten.max_unpool2d.default: _with_channels_innermost,
    aten.channel_shuffle.default: _with_channels_innermost,
    aten.native_channel_shuffle.default: _with_channels_innermost,
    aten.index_fill.int_Scalar: _as_it_lies,
    aten.index_fill.int_Tensor: _as_it_lies,
    aten.normal.Tensor_Tensor: _contiguous_on_cpus,
    aten.pow.Scalar: _contiguous,
    aten.roll.default: _rolled,
    aten.log_sigmoid_forward.default: _each_contiguous_on_cpus,
    aten.rrelu_with_noise.default: _contiguous,
    aten.native_batch_norm.default: _normalized,
    aten._native_batch_norm_legit.default: _normalized,
    aten._native_batch_norm_legit.no_stats: _normalized,
}
