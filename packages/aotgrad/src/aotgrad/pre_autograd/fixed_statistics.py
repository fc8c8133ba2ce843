"""Batch norm by fixed statistics as arithmetic that autograd differentiates.

Must not know: recording of graphs.
"""

from __future__ import annotations

import torch

from aotgrad.recording.memory_order import lies_as_normalized
from aotgrad.tensors.kept import save_beside
from aotgrad.torch_versions import is_functorch_wrapped_tensor


def with_fixed_statistics(
    input: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    var: torch.Tensor,
    eps: float,
) -> torch.Tensor:
    """Batch norm by fixed statistics as pointwise arithmetic: torch's kernels keep values for backward that differ
    between devices and are not needed."""
    dtype = torch.promote_types(input.dtype, torch.float32)
    per_channel = (1, -1, *[1] * (input.dim() - 2))
    scale = torch.rsqrt(var.to(dtype) + eps)
    normalised = (input.to(dtype) - mean.to(dtype).view(per_channel)) * scale.view(per_channel)
    if weight is not None:
        normalised = normalised * weight.to(dtype).view(per_channel)
    shift = 0.0 if bias is None else bias.to(dtype).view(per_channel)  # torch's kernels add a zero: none is negative
    if isinstance(shift, torch.Tensor) and shift.requires_grad:
        # Of a single row nothing is summed: an expanded gradient would arrive at the bias as it is.
        shift.register_hook(torch.Tensor.contiguous)
    result = normalised + shift
    if not is_functorch_wrapped_tensor(result):
        # What torch's kernels keep: a write to it before backward is refused as in eager.
        save_beside(result, [each for each in (input, weight, mean, var) if each is not None])
    return lies_as_normalized(result.to(input.dtype), input)
