"""Operators that the library may refuse though its fakes let them pass: CPython runs such an operation, and knows.

Fakes check shapes and types, though not all that kernels check.  A doubt need not be right: whatever it is about
is run as in eager.  Must not know how operations are recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch

from capture.recording.nests import tensors_in
from capture.torch_versions import OpOverload, aten, cdata_of, pytree, schema_of

Doubt = Callable[..., bool]
_DOUBTS: dict[object, list[Doubt]] = {}


def _doubt(*packets: object) -> Callable[[Doubt], Doubt]:
    """Registers a question whether eager may refuse one of these operators."""

    def register(doubt: Doubt) -> Doubt:
        for packet in packets:
            _DOUBTS.setdefault(packet, []).append(doubt)
        return doubt

    return register


def doubtful(
    func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object], written: Sequence[torch.Tensor]
) -> bool:
    """True if eager may refuse this; ``written`` are the operands that it writes to."""
    if any(doubt(*args, **kwargs) for doubt in _DOUBTS.get(func.overloadpacket, ())):
        return True
    if isinstance(kwargs.get("alpha"), bool):  # which some kernels take for truths alone
        return True
    numbers, results, positions = _traits(func)
    if numbers and _is_out_of_range(numbers, positions, args, kwargs):
        return True
    if any(_is_of_another_type(kwargs.get(name), args) for name in results):
        return True
    if not written:
        return False
    if not torch.is_inference_mode_enabled() and any(target.is_inference() for target in written):
        return True
    return _does_not_fit(func, (args, kwargs), written) or _overlaps(func, (args, kwargs), written)


@cache
def _traits(func: OpOverload) -> tuple[tuple[tuple[int, str], ...], tuple[str, ...], tuple[tuple[int, str], ...]]:
    """Arguments that are numbers of a tensor's type, by place and name; those that results are written to; and those
    that are positions, whose type is not that of numbers."""
    arguments = list(enumerate(schema_of(func).arguments))
    numbers = tuple((place, each.name) for place, each in arguments if "number" in str(each.type).lower())
    positions = tuple((place, each.name) for place, each in arguments if each.name in ("index", "indices"))
    return numbers, tuple(each.name for _, each in arguments if each.is_out), positions


# -- memory ------------------------------------------------------------------------------------------------------


def _overlaps(func: OpOverload, operands: object, written: Sequence[torch.Tensor]) -> bool:
    """True if a written tensor lies over itself, or in part over something that is read."""
    tensors = [tensor for tensor in tensors_in(operands) if tensor.layout is torch.strided]
    for target in written:
        if not _is_known(target):
            continue
        if any(stride == 0 and size > 1 for size, stride in zip(target.shape, target.stride(), strict=True)):
            return True
        memory = cdata_of(target.untyped_storage())
        for other in tensors:
            if other is target or cdata_of(other.untyped_storage()) != memory or not _is_known(other):
                continue
            if _partly(target, other) or (torch.Tag.pointwise not in func.tags and _same_place(target, other)):
                return True
    return False


def _is_known(tensor: torch.Tensor) -> bool:
    """True if no size or stride is a symbol: to compare one would fix it."""
    numbers = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    return all(isinstance(number, int) for number in numbers)


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """The bytes of the storage that a dense tensor has, as first and end."""
    first = tensor.storage_offset() * tensor.element_size()
    return first, first + tensor.numel() * tensor.element_size()


def _partly(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if two dense tensors overlap, but are not the same elements in the same order."""
    if not (_is_dense(one) and _is_dense(other)):
        return False
    (first, end), (begin, stop) = _extent(one), _extent(other)
    if (first, end) == (begin, stop):
        return one.stride() != other.stride()
    return first < stop and begin < end


def _same_place(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if two dense tensors are over the same bytes."""
    return _is_dense(one) and _is_dense(other) and _extent(one) == _extent(other)


def _is_dense(tensor: torch.Tensor) -> bool:
    """True if it fills its memory without gaps."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


@_doubt(aten.as_strided, aten.as_strided_, aten.as_strided_copy, aten.as_strided_scatter)
def _beyond_memory(x: torch.Tensor, *given: object, **named: object) -> bool:
    """True if the view may reach out of the storage."""
    lists = [item for item in (*given, *named.values()) if isinstance(item, (list, tuple))]
    numbers = [item for item in (*given, *named.values()) if isinstance(item, (int, torch.SymInt))]
    if len(lists) < 2:
        return True
    size, stride = lists[-2:]
    offset = numbers[-1] if numbers else x.storage_offset()
    everything = (*size, *stride, offset, x.untyped_storage().nbytes())
    if not all(isinstance(number, int) for number in everything) or 0 in size:
        return False
    if len(size) != len(stride):
        return True
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    return bool(offset < 0 or (last + 1) * x.element_size() > x.untyped_storage().nbytes())


@_doubt(aten.cat, aten.stack)
def _into_an_operand(
    tensors: Sequence[torch.Tensor], *_: object, out: torch.Tensor | None = None, **__: object
) -> bool:
    return any(tensor is out for tensor in tensors)


# -- values ------------------------------------------------------------------------------------------------------


def _is_out_of_range(
    numbers: tuple[tuple[int, str], ...],
    positions: tuple[tuple[int, str], ...],
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> bool:
    """True if a number is one that a tensor of whole numbers cannot hold."""
    given = [args[place] if place < len(args) else kwargs.get(name) for place, name in numbers]
    given = [number for number in given if type(number) in (int, float)]
    if not given:
        return False
    others = [leaf for place, leaf in enumerate(args) if place not in dict(positions)]
    others += [leaf for name, leaf in kwargs.items() if name not in dict(positions).values()]
    tensors = (leaf for leaf in others if isinstance(leaf, torch.Tensor))
    held = [tensor.dtype for tensor in tensors] if kwargs.get("dtype") is None else [kwargs["dtype"]]
    limits = [torch.iinfo(dtype) for dtype in held if _is_whole(dtype)]
    return any(not limit.min <= number <= limit.max for limit in limits for number in given)


def _is_whole(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool)


def _is_of_another_type(result: object, args: Sequence[object]) -> bool:
    """True if the tensor for the result is of another type than the first operand: not every kernel converts it."""
    first = next((arg for arg in args if isinstance(arg, torch.Tensor)), None)
    return isinstance(result, torch.Tensor) and first is not None and result.dtype is not first.dtype


def _does_not_fit(func: OpOverload, operands: object, written: Sequence[torch.Tensor]) -> bool:
    """True if the result is of a kind that a written tensor cannot hold, as fractions among whole numbers are.

    Kernels refuse that, fakes of several operators do not.
    """
    if torch.Tag.pointwise not in func.tags and not schema_of(func).name.startswith("aten::_foreach_"):
        return False
    least = min(_category(target) for target in written)
    return any(_category(leaf) > least for leaf in pytree.tree_leaves(operands))


def _category(operand: object) -> int:
    """The category of an operand, of which torch's result has the highest among its operands.

    Truths, whole numbers, fractions, complex numbers.
    """
    if isinstance(operand, torch.Tensor):
        dtype = operand.dtype
        return 3 if dtype.is_complex else 2 if dtype.is_floating_point else int(dtype is not torch.bool)
    return _CATEGORIES.get(type(operand), 0)


_CATEGORIES: dict[type, int] = {int: 1, torch.SymInt: 1, float: 2, torch.SymFloat: 2, complex: 3}


@_doubt(aten.relu, aten.relu_, aten.abs, aten.abs_)
def _of_truths(x: torch.Tensor, *_: object, **__: object) -> bool:
    return x.dtype is torch.bool


@_doubt(aten.lt, aten.le, aten.gt, aten.ge, aten.lt_, aten.le_, aten.gt_, aten.ge_)
def _in_no_order(*operands: object, **_: object) -> bool:
    return any(isinstance(each, torch.Tensor) and each.is_complex() for each in operands)


@_doubt(aten.fill, aten.fill_)
def _by_several_values(x: torch.Tensor, value: object, **_: object) -> bool:
    """True for a fill by several values, or by one with an imaginary part where nothing holds that."""
    return (isinstance(value, torch.Tensor) and value.dim() > 0) or (isinstance(value, complex) and not x.is_complex())


@_doubt(aten.sub, aten.sub_, aten.rsub, aten._foreach_sub, aten._foreach_sub_)
def _minus_truths(*operands: object, **named: object) -> bool:
    """True if something is taken from a truth, or a truth from something."""
    leaves = pytree.tree_leaves((operands, named))
    return any(
        leaf.dtype is torch.bool if isinstance(leaf, torch.Tensor) else isinstance(leaf, bool) for leaf in leaves
    )


@_doubt(
    *(aten.max, aten.min, aten.amax, aten.amin, aten.aminmax, aten.argmax, aten.argmin, aten.median, aten.nanmedian),
    *(aten.mode, aten.kthvalue, aten.cummax, aten.cummin, aten.logcumsumexp),
)
def _of_nothing(x: torch.Tensor, *_: object, **__: object) -> bool:
    """True for an empty operand: there is no largest of no numbers, along this dimension or another."""
    return any(isinstance(size, int) and not size for size in x.shape)


@_doubt(aten.upsample_linear1d, aten.upsample_bicubic2d)
def _between_nothing(x: torch.Tensor, *_: object, **__: object) -> bool:
    """True for images without pixels: there may be no images, but none is empty."""
    return any(isinstance(size, int) and not size for size in x.shape[1:])


@_doubt(aten.pixel_shuffle, aten.pixel_unshuffle)
def _of_no_pixels(x: torch.Tensor, *_: object, **__: object) -> bool:
    """True for an operand without elements.

    Torch's kernels for CPUs give such a one back in the shape that it has, and without a gradient.
    """
    return any(isinstance(size, int) and not size for size in x.shape)


@_doubt(
    *(aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor, aten.bitwise_not),
    *(aten.bitwise_and_, aten.bitwise_or_, aten.bitwise_xor_, aten.bitwise_not_),
    *(aten.bitwise_left_shift, aten.bitwise_right_shift, aten.bitwise_left_shift_, aten.bitwise_right_shift_),
    *(aten.gcd, aten.gcd_, aten.lcm, aten.lcm_),
)
def _of_fractions(*operands: object, **_: object) -> bool:
    """True for operands that are no whole numbers, which have neither bits nor divisors."""
    tensors = [each for each in operands if isinstance(each, torch.Tensor)]
    return any(each.is_floating_point() or each.is_complex() for each in tensors)


@_doubt(aten.index_select, aten.index_add, aten.index_add_, aten.index_copy, aten.index_copy_)
@_doubt(aten.index_fill, aten.index_fill_, aten.index_reduce, aten.index_reduce_)
def _by_no_positions(x: torch.Tensor, dim: int, index: torch.Tensor, *_: object, **__: object) -> bool:
    """True for an index that is not whole numbers in a row."""
    return index.dim() > 1 or index.dtype not in (torch.int64, torch.int32)


@_doubt(aten.bucketize)
def _between_no_row(x: object, boundaries: torch.Tensor, *_: object, **__: object) -> bool:
    """True for boundaries that are not in a row."""
    return boundaries.dim() != 1


@_doubt(aten.mm, aten.mv, aten.bmm, aten.dot, aten.vdot, aten.linalg_cross, aten.heaviside, aten.heaviside_)
@_doubt(aten.addmm, aten.addmv, aten.baddbmm, aten.addbmm, aten.addmm_, aten.addmv_, aten.baddbmm_, aten.addbmm_)
def _of_two_types(*operands: object, **_: object) -> bool:
    """True if operands are of several types, unless the result's is given.

    Factors, and what their product is added to, have to be of one.
    """
    has_dtype = any(isinstance(each, torch.dtype) for each in operands)
    return not has_dtype and len({each.dtype for each in operands if isinstance(each, torch.Tensor)}) > 1


@_doubt(aten.convolution)
def _by_a_weight_of_another_type(x: torch.Tensor, weight: torch.Tensor, *_: object, **__: object) -> bool:
    return x.dtype is not weight.dtype


@_doubt(aten.index_add, aten.index_add_, aten.index_copy, aten.index_copy_)
def _from_another_type(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, **_: object) -> bool:
    return x.dtype is not source.dtype


@_doubt(aten.celu, aten.celu_)
def _without_alpha(x: torch.Tensor, alpha: object = 1.0) -> bool:
    return not alpha


@_doubt(aten.smooth_l1_loss, aten.huber_loss)
def _without_width(
    x: torch.Tensor, target: torch.Tensor, reduction: int = 1, width: object = 1.0, **named: object
) -> bool:
    return any(not isinstance(number, (int, float)) or number <= 0 for number in (width, *named.values()))


@_doubt(aten._softmax, aten._log_softmax)
def _softmax_of(x: torch.Tensor, dim: int, *_: object, **__: object) -> bool:
    return not -max(x.dim(), 1) <= dim < max(x.dim(), 1) or not x.is_floating_point()


@_doubt(aten.native_batch_norm, aten._native_batch_norm_legit, aten._native_batch_norm_legit_no_training)
def _of_whole_numbers(*operands: object, **_: object) -> bool:
    return any(isinstance(each, torch.Tensor) and not each.is_floating_point() for each in operands)


@_doubt(aten.index_put, aten.index_put_, aten._index_put_impl_)
def _too_many_values(x: torch.Tensor, indices: Sequence[Any], values: torch.Tensor, *_: object, **__: Any) -> bool:
    """True if the values do not fit the places that the indices pick."""
    picked = [index for index in indices if index is not None]
    sizes = [size for tensor in (x, values, *picked) for size in tensor.shape]
    if not picked or not all(isinstance(size, int) for size in sizes):
        return False
    if any(index.dtype in (torch.bool, torch.uint8) for index in picked):
        return False  # how many they pick is for the run to tell
    rest = [size for place, size in enumerate(x.shape) if place >= len(indices) or indices[place] is None]
    try:
        picks = torch.broadcast_shapes(*(index.shape for index in picked))
    except RuntimeError:
        return True
    most = len(picks) + len(rest)
    beyond, within = values.shape[: max(0, values.dim() - most)], values.shape[-most:] if most else ()
    return any(size != 1 for size in beyond) or not {*within} <= {*picks, *rest, 1}
