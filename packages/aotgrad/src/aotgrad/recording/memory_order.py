"""The memory layouts of results, and corrections of fake kernels that have them wrong.

Must not know: recording.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from aotgrad.errors import Unsupported
from aotgrad.recording.element_order import laid_out_by_elements
from aotgrad.recording.indexed_order import laid_out_as_picked
from aotgrad.recording.viewed_order import laid_out_as_viewed
from aotgrad.tensors.symbols import SYM_TYPES, is_same
from aotgrad.torch_versions import FakeTensorMode, OpOverload, aten, pytree, schema_of


def may_be_laid_out(args: Sequence[object], result: torch.Tensor) -> bool:
    """True if an operator and its decomposition may lay the result out differently: of contiguous tensors both make
    contiguous ones.  Dynamic sizes are to be replaced by those of this call, because looking at them would fix them."""
    if result.dim() < 2 or result.layout is not torch.strided or not has_known_layout(result):
        return False
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.layout is torch.strided]
    return all(map(has_known_layout, tensors)) and not all(map(_lies_plainly, tensors))


def in_this_call(values: Any, fake_mode: FakeTensorMode) -> Any:
    """The arguments with the sizes that they have in this call: nothing is decided about others by looking at these.
    None if a size is data-dependent."""
    leaves, structure = pytree.tree_flatten(values)
    try:
        return pytree.tree_unflatten([_fixed(leaf, fake_mode) for leaf in leaves], structure)
    except _DataDependent:
        return None


class _DataDependent(Exception):
    """A size is not known in this call."""


def _fixed(leaf: object, fake_mode: FakeTensorMode) -> object:
    if isinstance(leaf, SYM_TYPES):
        return _known_now(leaf)
    if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided or has_known_layout(leaf):
        return leaf
    sizes, strides = [*map(_known_now, leaf.shape)], [*map(_known_now, leaf.stride())]
    with fake_mode:
        return torch.empty_strided(sizes, strides, dtype=leaf.dtype, device=leaf.device)


def _known_now(number: object) -> int:
    if (known := _now(number)) is None:
        raise _DataDependent
    return int(known)


def lies_in_order(tensor: torch.Tensor) -> bool:
    """True if every operator would lay out its result in this order, or nothing is known of it."""
    if tensor.layout is not torch.strided or not tensor.dim():
        return True
    if tensor.dim() < 2 or not has_known_layout(tensor):
        return not has_gaps(tensor) and not may_be_read_otherwise(tensor)
    return _lies_plainly(tensor)


def has_gaps(tensor: torch.Tensor) -> bool:
    """True if there is memory between its elements that belongs to none of them, as in every second row of a matrix.
    Sizes that vary are taken as they are in this call, and compared by their expressions, so that no guard follows."""
    if tensor.layout is not torch.strided:
        return False
    dims = [(stride, size) for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if _now(size) != 1]
    if any(not _now(number) for pair in dims for number in pair):  # nothing, one element many times, or unknown
        return False
    dense: Any = 1
    for stride, size in sorted(dims, key=lambda dim: (_now(dim[0]), _now(dim[1]))):
        if not is_same(stride, dense):
            return True
        dense = stride * size
    return False


def is_window(tensor: torch.Tensor) -> bool:
    """True if its memory has room for more than its elements, unless it has some of them several times.

    Sizes that vary are taken as they are in this call, so that no guard follows.
    """
    if tensor.layout is not torch.strided:
        return False
    dims = [(_now(size), _now(stride)) for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]
    begin, held = _now(tensor.storage_offset()), _now(tensor.untyped_storage().nbytes())
    if begin is None or held is None or any(None in dim for dim in dims):
        return False
    if any(size > 1 and not stride for size, stride in dims):
        return False
    return bool(begin or held != math.prod(size for size, _ in dims) * tensor.element_size())


def symbolic_out_of_order(tensor: torch.Tensor) -> bool:
    """True if an operator may lay out its result differently, and dynamic sizes do not let one tell."""
    return (
        tensor.dim() > 1
        and tensor.layout is torch.strided
        and not has_known_layout(tensor)
        and not tensor.is_contiguous()
    )


def refuse_normal(drawn: torch.Tensor) -> None:
    """Refuses draws into memory with gaps: torch's kernel for CPUs draws 16 elements and more in another way there, and
    the functional operator has no gaps."""
    few = isinstance(count := drawn.numel(), int) and count < 16
    if drawn.device.type == "cpu" and not few and has_gaps(drawn):
        raise Unsupported("normal_ draws into a tensor that has gaps in memory", "draw into one without, and copy it")


def corrected(
    func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object], result: Any, fake_mode: FakeTensorMode
) -> Any:
    """The result of a fake kernel, with the layout and the dtype that the operator's own kernel gives."""
    rule = _CORRECTIONS.get(func)
    corrected_by_rule = result if rule is None else _corrected_by(rule, args, result, fake_mode)
    return laid_out_by_elements(schema_of, func, args, kwargs, corrected_by_rule)


def _corrected_by(rule: Callable[..., Any], args: Sequence[object], result: Any, fake_mode: FakeTensorMode) -> Any:
    result = rule(result, *args)
    if fake_mode.shape_env is None:
        return result
    several = [result] if isinstance(result, torch.Tensor) else list(result)
    called = in_this_call((args, several), fake_mode)
    if called is None:
        return result
    args, found = called
    own: Any = rule(found[0] if isinstance(result, torch.Tensor) else found, *args)
    if isinstance(result, torch.Tensor):
        return _ordered(own, found[0], result)
    return [_ordered(*each) for each in zip(own, found, several, strict=True)]


def _ordered(own: object, found: object, result: Any) -> Any:
    """A result of sizes that vary, in the order that it has in this call where it is found in another."""
    order = order_of(own, found) if isinstance(found, torch.Tensor) else None
    if order is None:
        return result
    laid = result.new_empty([result.shape[dim] for dim in order])
    return laid.permute([order.index(dim) for dim in range(len(order))])


def _roll(result: torch.Tensor, x: torch.Tensor, shifts: Sequence[Any], dims: Sequence[int] = ()) -> torch.Tensor:
    """A roll on CPUs lies as a concatenation of two parts, of which one may be empty; torch's rule in Python
    indexes."""
    is_known = has_known_layout(x) and all(isinstance(shift, int) for shift in shifts)
    if x.device.type != "cpu" or not is_known or not x.numel() or not dims or _lies_plainly(x):
        return result
    for shift, dim in zip(shifts, dims, strict=True):
        start = -shift % x.size(dim)
        x = torch.cat([x.narrow(dim, start, x.size(dim) - start), x.narrow(dim, 0, start)], dim)
    return x


def _attention(result: tuple[torch.Tensor, torch.Tensor], query: torch.Tensor, *_: object) -> Sequence[torch.Tensor]:
    """Attention's logarithms of sums are as exact as the kernel's sums; torch 2.11 and 2.12 say float32 always."""
    return result[0], _of_dtype(result[1], torch.float64 if query.dtype == torch.float64 else torch.float32)


def _counts(result: torch.Tensor, x: torch.Tensor, weights: torch.Tensor | None = None, *_: object) -> torch.Tensor:
    """Counts are integers of 64 bits, or sums of weights; torch 2.11 says the dtype of what is counted."""
    if weights is None:
        return _of_dtype(result, torch.int64)
    return _of_dtype(result, torch.float32 if weights.dtype == torch.float32 else torch.float64)


def _positions(result: Sequence[torch.Tensor], *_: object) -> Sequence[torch.Tensor]:
    """Positions and counts that were not asked for are empty and integers all the same; torch 2.11 says floats."""
    return result[0], *(_of_dtype(tensor, torch.int64) for tensor in result[1:])


def _with_statistics(result: Sequence[torch.Tensor], x: torch.Tensor, *rest: object) -> Sequence[torch.Tensor]:
    """Statistics of halves are as exact as the weights beside them on CPUs; fake kernels say halves, or floats."""
    if x.device.type != "cpu" or x.dtype not in (torch.float16, torch.bfloat16):
        return result
    beside = next((given.dtype for given in rest if isinstance(given, torch.Tensor)), x.dtype)
    return result[0], *(_of_dtype(tensor, beside) for tensor in result[1:3]), *result[3:]


def _normalized_by_groups(result: Sequence[torch.Tensor], x: torch.Tensor, *rest: object) -> Sequence[torch.Tensor]:
    """A group norm's result lies by the format of the operand; from torch 2.14 on the fake says contiguous."""
    result = _with_statistics(result, x, *rest)
    return _by_format(result[0], x), *result[1:]


def _normalized(result: Sequence[torch.Tensor], x: torch.Tensor, *rest: object) -> Sequence[torch.Tensor]:
    """Batch norm's kernels for CPUs lay out what they normalise by channels, or contiguously."""
    result = _with_statistics(result, x, *rest)
    if x.device.type != "cpu" or not _has_known_format(x):
        return result
    return _laid_out_as(result[0], memory_format_of(x)), *result[1:]


def _gradient_of_normalized(result: Sequence[torch.Tensor], _: object, x: torch.Tensor, *__: object) -> Any:
    """A batch norm's gradient lies as its operand is read, however the tangent lies; a fake says as the tangent."""
    if x.device.type != "cpu" or not isinstance(result[0], torch.Tensor) or not _has_known_format(x):
        return result
    return _laid_out_as(result[0], memory_format_of(x)), *result[1:]


def lies_as_normalized(result: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A batch norm of ``x`` made by other operators, in the layout of its kernels for CPUs."""
    if x.device.type != "cpu" or not _has_known_format(x):
        return result
    return result.contiguous(memory_format=memory_format_of(x))


def _has_known_format(x: torch.Tensor) -> bool:
    """True if the memory format can be told without looking at dynamic sizes."""
    return x.dim() not in _INNERMOST or has_known_layout(x)


_INNERMOST = {4: torch.channels_last, 5: torch.channels_last_3d}
"""The memory formats with the channels innermost, by the number of dimensions."""


def memory_format_of(x: torch.Tensor) -> torch.memory_format:
    """The memory format in which an operand is contiguous, or else the one that torch's kernels see in its strides."""
    innermost = _INNERMOST.get(x.dim())
    if innermost is None or x.is_contiguous():
        return torch.contiguous_format
    return innermost if x.is_contiguous(memory_format=innermost) else _format_seen(x, innermost)


def _format_seen(x: torch.Tensor, innermost: torch.memory_format) -> torch.memory_format:
    """The memory format read off strides, which may have holes; contiguous where the channels are not innermost.

    Sizes that vary count as in this call.
    """
    sizes, strides = [*map(_now, x.shape)], [*map(_now, x.stride())]
    if None in sizes or None in strides:
        return torch.contiguous_format
    least, order = 1, (1, *range(x.dim() - 1, 1, -1), 0)
    for dim in order:
        is_ambiguous = dim == 0 and least == strides[1]  # one channel, or images of one element
        if strides[dim] < least or not sizes[dim] or is_ambiguous:
            return torch.contiguous_format
        least = strides[dim] * sizes[dim]
    return innermost


def _looks_innermost(x: torch.Tensor) -> bool:
    """True if a convolution takes its channels for innermost: it may do so of a contiguous one, if there is one."""
    return x.dim() in _INNERMOST and _format_seen(x, _INNERMOST[x.dim()]) is _INNERMOST[x.dim()]


def may_be_read_otherwise(x: torch.Tensor) -> bool:
    """True if it looks so for the stride along a single element alone, which another may have otherwise."""
    return _looks_innermost(x) and any(isinstance(size, int) and size == 1 for size in x.shape)


def _lies_plainly(x: torch.Tensor) -> bool:
    return x.is_contiguous() and not _looks_innermost(x)


def _by_format(result: torch.Tensor, x: torch.Tensor, *_: object) -> torch.Tensor:
    """Kernels for CPUs lay out what they give by channels, or contiguously."""
    if x.device.type != "cpu" or not has_known_layout(x):
        return result
    innermost = _INNERMOST.get(x.dim())
    return _laid_out_as(result, torch.contiguous_format if innermost is None else _format_seen(x, innermost))


def _by_format_of_padded(result: torch.Tensor, _: object, x: torch.Tensor, *__: object) -> torch.Tensor:
    """The result lies by the format of what was padded; torch's rule in Python asks the gradient that arrives."""
    return _by_format(result, x)


def _each_contiguous_on_cpus(result: Sequence[torch.Tensor], *_: object) -> Sequence[torch.Tensor]:
    return list(map(_contiguous_on_cpus, result))


def _contiguous_on_cpus(result: torch.Tensor, *_: object) -> torch.Tensor:
    return _contiguous(result) if result.device.type == "cpu" else result


def _contiguous(result: torch.Tensor, *_: object) -> torch.Tensor:
    return _laid_out_as(result, torch.contiguous_format)


def _as_it_lies(result: torch.Tensor, x: torch.Tensor, *_: object) -> torch.Tensor:
    """The result lies as the operand, without its gaps; torch 2.11 says contiguous of some, and all of others."""
    return torch.empty_like(x, dtype=result.dtype)


def _as_products(result: torch.Tensor, x: object, y: object, *_: object) -> torch.Tensor:
    """The result lies as a product of the operands, element by element; torch's rules in Python spread the operands out
    first."""
    operands = [each for each in (x, y) if isinstance(each, torch.Tensor)]
    if len(operands) < 2 or all(has_known_layout(each) and each.is_contiguous() for each in operands):
        return result
    return torch.empty_like(torch.mul(x, y), dtype=result.dtype)


def _as_products_on_cpus(result: torch.Tensor, x: torch.Tensor, y: object, *_: object) -> torch.Tensor:
    return _as_products(result, x, y) if x.device.type == "cpu" else result


def _as_scaled(result: torch.Tensor, x: torch.Tensor, y: torch.Tensor, *_: object) -> torch.Tensor:
    """The result lies as the product with powers of two, which are contiguous unless they are complex."""
    return result if result.is_complex() else torch.empty_like(torch.mul(x, _contiguous(y)), dtype=result.dtype)


def _angle(result: torch.Tensor, x: torch.Tensor, *_: object) -> torch.Tensor:
    """Angles of complex numbers are contiguous on CPUs; torch's rule in Python says as the operand."""
    return _contiguous_on_cpus(result) if x.is_complex() else result


def _pooled_volumes(result: Sequence[torch.Tensor], x: torch.Tensor, *_: object) -> Sequence[torch.Tensor]:
    """One volume lies as it would among others."""
    if x.dim() != 4 or x.device.type != "cpu" or not has_known_layout(x):
        return result
    return [_laid_out_as(each[None], memory_format_of(x[None]))[0] for each in result]


def _gradient_of_elu(result: torch.Tensor, grad: torch.Tensor, *rest: object) -> torch.Tensor:
    return _as_products(result, grad, rest[-1])


def _as_noise(result: torch.Tensor, grad: torch.Tensor, _: object, noise: torch.Tensor, *rest: object) -> torch.Tensor:
    """The gradient laid out, in training, as the noise times the tangent, in this order; torch's rule in Python has the
    other."""
    training = rest[2]
    if not training or not has_known_layout(grad) or not has_known_layout(noise):
        return result
    return torch.empty_like(torch.mul(noise, grad), dtype=result.dtype)


def _with_gaps(result: torch.Tensor, x: torch.Tensor, *_: object) -> torch.Tensor:
    """The result lies as the operand that is written to; torch's rule in Python, taken where sizes are dynamic, says
    dense."""
    return result.new_empty_strided(x.shape, x.stride()) if has_gaps(x) else result


def _cloned(result: torch.Tensor, x: torch.Tensor, *_: object) -> torch.Tensor:
    """The result lies as a copy of the operand, of which each element has a place of its own."""
    spread = has_known_layout(x) and any(n > 1 and not step for n, step in zip(x.shape, x.stride(), strict=True))
    return torch.empty_like(x) if spread else result


def _laid_out_as(tensor: torch.Tensor, memory_format: torch.memory_format) -> torch.Tensor:
    return torch.empty_like(tensor, memory_format=memory_format)


def _of_dtype(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if tensor.dtype == dtype:
        return tensor
    return tensor.new_empty_strided(tensor.shape, tensor.stride(), dtype=dtype)


_CORRECTIONS: dict[OpOverload, Callable[..., Any]] = {
    aten.replication_pad2d_backward.default: _by_format_of_padded,
    aten.view.default: laid_out_as_viewed,
    aten._unsafe_view.default: laid_out_as_viewed,
    aten.roll.default: _roll,
    aten.index.Tensor: laid_out_as_picked,
    aten.ldexp.Tensor: _as_scaled,
    aten.angle.default: _angle,
    aten.max_pool3d_with_indices.default: _pooled_volumes,
    aten._scaled_dot_product_flash_attention_for_cpu.default: _attention,
    aten.bincount.default: _counts,
    **dict.fromkeys(
        (aten.max_unpool2d.default, aten.channel_shuffle.default, aten.native_channel_shuffle.default), _by_format
    ),
    **dict.fromkeys((aten.normal.Tensor_Tensor, aten.normal.float_Tensor), _contiguous_on_cpus),
    aten.native_dropout_backward.default: _as_products_on_cpus,
    **dict.fromkeys(
        (
            *(aten.pow.Scalar, aten.isin.Tensor_Tensor, aten.isin.Tensor_Scalar),
            *(aten.glu_backward.default, aten.grid_sampler_2d.default),
        ),
        _contiguous,
    ),
    aten.log_sigmoid_forward.default: _each_contiguous_on_cpus,
    aten.rrelu_with_noise_backward.default: _as_noise,
    **dict.fromkeys(
        (
            *(aten.zero.default, aten.log_sigmoid_backward.default),
            *(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor),
        ),
        _as_it_lies,
    ),
    aten.slice_scatter.default: _with_gaps,
    aten.as_strided_scatter.default: _cloned,
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
    aten._native_batch_norm_legit.no_stats: _normalized,
    aten._native_batch_norm_legit_functional.default: _normalized,
    aten._native_batch_norm_legit_no_training.default: _normalized,
    aten.native_batch_norm.default: _normalized,
    aten.native_batch_norm_backward.default: _gradient_of_normalized,
    **dict.fromkeys(
        (
            *(aten.upsample_nearest2d.default, aten.upsample_nearest3d.default, aten.upsample_bilinear2d.default),
            *(aten._upsample_nearest_exact2d.default, aten._upsample_nearest_exact3d.default),
            *(aten.upsample_bicubic2d.default, aten.upsample_trilinear3d.default),
            *(aten._upsample_bilinear2d_aa.default, aten._upsample_bicubic2d_aa.default),
        ),
        _by_format,
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
    **dict.fromkeys((aten._unique2.default, aten.unique_consecutive.default, aten.unique_dim.default), _positions),
}


def order_of(wanted: object, found: torch.Tensor) -> list[int] | None:
    """The dimensions from the outermost to the innermost in memory, for a result that has to be moved; None where it
    need not be, or where the wanted layout has gaps."""
    if not isinstance(wanted, torch.Tensor) or wanted.shape != found.shape or not wanted.numel():
        return None
    if _significant(wanted) == _significant(found) and _looks_innermost(wanted) == _looks_innermost(found):
        return None
    order = sorted(range(wanted.dim()), key=lambda dim: (-wanted.stride(dim), -wanted.shape[dim]))
    return order if wanted.permute(order).is_contiguous() else None


def _now(number: Any) -> Any:
    return number.node.hint if isinstance(number, SYM_TYPES) else number


def has_known_layout(tensor: torch.Tensor) -> bool:
    """True if sizes and strides have no symbols."""
    return all(isinstance(number, int) for number in (*tensor.shape, *tensor.stride()))


def _significant(tensor: torch.Tensor) -> list[tuple[int, int]]:
    return [(dim, tensor.stride(dim)) for dim, size in enumerate(tensor.shape) if size != 1]
