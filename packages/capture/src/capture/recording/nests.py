"""The tensors in nests of lists, tuples and dicts, which is what operators take.

Torch's own flattening serves every container that a program may register, and takes ten times as long.
"""

from __future__ import annotations

from typing import Any

import torch


def tensors_in(nest: object) -> list[torch.Tensor]:
    """The tensors in a nest, in the order in which they are met."""
    found: list[torch.Tensor] = []
    _collect(nest.values() if isinstance(nest, dict) else nest, found)
    return found


def _collect(items: Any, found: list[torch.Tensor]) -> None:
    for item in items:
        if isinstance(item, torch.Tensor):
            found.append(item)
        elif isinstance(item, (list, tuple)):
            _collect(item, found)
        elif isinstance(item, dict):
            _collect(item.values(), found)
