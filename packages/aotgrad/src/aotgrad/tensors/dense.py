"""The tensors that graphs can hold: dense, strided, with memory in which every element lies.

Must not know: inputs, graphs.
"""

from __future__ import annotations

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
