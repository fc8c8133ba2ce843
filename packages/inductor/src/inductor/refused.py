"""Operators on dtypes that torch's own kernels do not implement: torch is asked, so that its error is the user's.

Must not know: graphs, kernels of ours.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from inductor.torch_versions import OpOverload, pytree

_EVERYWHERE = frozenset({torch.float32, torch.float64})
_LARGEST_ASKED = 16
_UNIMPLEMENTED = re.compile("not implemented for|not support", re.IGNORECASE)


def is_unimplemented(target: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether torch refuses the operator on CPU tensors of these dtypes; asked once, of tensors of one element."""
    if target.namespace != "aten" or torch.Tag.nondeterministic_seeded in target.tags:  # asking would draw numbers
        return False
    leaves, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if _EVERYWHERE.issuperset(tensor.dtype for tensor in tensors):
        return False
    if any(tensor.device.type != "cpu" for tensor in tensors):
        return False
    plain = (bool, int, float, str, type(None), torch.dtype, torch.layout, torch.device, torch.memory_format)
    if not all(isinstance(leaf, (torch.Tensor, *plain)) for leaf in leaves) or any(map(_may_be_size, leaves)):
        return False
    asked = tuple(_Kind(leaf.dtype, leaf.dim()) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves)
    return _is_refused(target, asked, tuple(map(type, asked)), structure)


def _may_be_size(leaf: Any) -> bool:
    """Whether it may say how large a result is: whoever only asks makes none."""
    return type(leaf) is int and abs(leaf) > _LARGEST_ASKED


class _Kind(tuple[torch.dtype, int]):
    """A tensor's dtype and how many dimensions it has."""

    def __new__(cls, dtype: torch.dtype, dimensions: int) -> _Kind:
        return super().__new__(cls, (dtype, dimensions))

    def one(self) -> torch.Tensor:
        """A tensor of one element."""
        dtype, dimensions = self
        return torch.ones((1,) * dimensions, dtype=dtype, device="cpu")


@functools.lru_cache(4096)
def _is_refused(target: OpOverload, leaves: tuple[Any, ...], types: tuple[type, ...], structure: Any) -> bool:
    """``types`` tell 1 from 1.0 and from True."""
    made = [leaf.one() if isinstance(leaf, _Kind) else leaf for leaf in leaves]
    args, kwargs = pytree.tree_unflatten(made, structure)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - shapes of one element may be refused, too, which says nothing
        return bool(_UNIMPLEMENTED.search(str(error)))
    return False
