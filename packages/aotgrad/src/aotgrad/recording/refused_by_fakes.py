"""Fakes of results of operators whose own fakes refuse what their kernels take.

What does not fit here in all respects goes to torch's fake, which says no.
Must not know: recording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from aotgrad.torch_versions import FakeTensor, OpOverload, aten


def taken(func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """The fake result where the kernel takes these operands; ``NotImplemented`` where torch's fake is to answer."""
    rule = _TAKEN.get(func)
    return NotImplemented if rule is None else rule(*args, **kwargs)


def _grouped_product(
    a: torch.Tensor,
    b: torch.Tensor,
    ends: torch.Tensor | None = None,
    bias: object = None,
    out_dtype: torch.dtype | None = None,
) -> object:
    """A product by groups, on CPUs: torch's fake refuses all but ``bfloat16``, whose lines it has close together."""
    given = [a, b] if ends is None else [a, b, ends]
    if not all(isinstance(each, FakeTensor) and each.device.type == "cpu" for each in given):
        return NotImplemented
    fits = a.dtype == b.dtype and a.dtype in _TYPES and out_dtype in (None, a.dtype) and bias is None
    if not fits or not _groups_fit(a, b, ends) or not all(_lies_in_lines(each) for each in (a, b)):
        return NotImplemented
    rows, columns = a.size(-2), b.size(-1)
    # Each line begins where 16 bytes do.
    line = -(-columns // _aligned(a)) * _aligned(a)
    if a.dim() == b.dim():
        groups = a.size(0) if ends is None else ends.size(0)
        return a.new_empty_strided((groups, rows, columns), (rows * line, line, 1))
    return a.new_empty_strided((rows, columns), (line, 1))


def _groups_fit(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor | None) -> bool:
    """True if matrices, or the groups that ``ends`` makes of the lines of one, are as many on both sides."""
    if not {a.dim(), b.dim()} <= {2, 3} or a.size(-1) != b.size(-2):
        return False
    if ends is None:
        return a.dim() == b.dim() == 3 and a.size(0) == b.size(0)
    if ends.dim() != 1 or ends.dtype != torch.int32 or a.dim() == b.dim() == 3:
        return False
    batches = [each.size(0) for each in (a, b) if each.dim() == 3]
    return all(batch == ends.size(0) for batch in batches)


def _lies_in_lines(x: torch.Tensor) -> bool:
    """True if the matrix has lines or columns without holes, that begin where 16 bytes do."""
    for inner, outer in ((-1, -2), (-2, -1)):
        if x.stride(inner) == 1 and x.stride(outer) >= max(1, x.size(inner)):
            return bool(x.stride(outer) % _aligned(x) == 0)
    return False


def _aligned(x: torch.Tensor) -> int:
    return 16 // x.element_size()


def _shrink_gradient(gradient: torch.Tensor, x: torch.Tensor, lambd: object) -> object:
    """Gradients of shrink functions lie as products do; torch's fakes refuse sizes that vary."""
    return torch.mul(gradient, x) if gradient.dtype == x.dtype else NotImplemented


_TYPES = (torch.float32, torch.float16, torch.bfloat16)
_TAKEN: dict[object, Callable[..., object]] = {
    aten._grouped_mm.default: _grouped_product,
    **dict.fromkeys((aten.softshrink_backward.default, aten.hardshrink_backward.default), _shrink_gradient),
}
