"""The tensors that graphs can hold: dense, strided, with memory in which every element lies.

Must not know: inputs, graphs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from aotgrad.torch_versions import is_zerotensor


def oddity(value: torch.Tensor) -> str:
    """The property that keeps a tensor out of graphs, in words; empty where there is none."""
    if value.is_nested:
        return "is nested"
    if value.layout is not torch.strided:
        return f"has layout {value.layout}"
    if value.is_quantized:
        return "is quantized"
    if value.is_inference() and value.requires_grad:
        return "was made in inference mode and requires grad"
    return "is all zeros and has no memory" if is_zerotensor(value) else ""


def may_overlap(size: Sequence[int | torch.SymInt], stride: Sequence[int | torch.SymInt]) -> bool:
    """True if two places of such a tensor may be one place in memory; what varies is taken for apart, unless it is
    expanded."""
    if not all(isinstance(number, int) for number in (*size, *stride)):
        return any(isinstance(step, int) and step == 0 and count != 1 for step, count in zip(stride, size, strict=True))
    reach = 0
    for step, count in sorted(zip(stride, size, strict=True), key=lambda pair: int(pair[0])):
        if count > 1 and step <= reach:
            return True
        reach += (count - 1) * step
    return False
