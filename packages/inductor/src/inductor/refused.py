"""Operators on dtypes that torch's own kernels have no code for: torch is asked, so that its error is the user's.

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
_NO_CODE = re.compile("not implemented for|not support", re.IGNORECASE)


def has_no_code(target: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
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
    if not all(isinstance(leaf, (torch.Tensor, *plain)) for leaf in leaves):
        return False
    asked = tuple(_Kind(leaf.dtype, leaf.dim()) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves)
    return _is_refused(target, asked, tuple(map(type, asked)), structure)


class _Kind(tuple[torch.dtype, int]):
    def __new__(cls, dtype: torch.dtype, dimensions: int) -> _Kind:
        return super().__new__(cls, (dtype, dimensions))


@functools.lru_cache(4096)
def _is_refused(target: OpOverload, leaves: tuple[Any, ...], types: tuple[type, ...], structure: Any) -> bool:
    """``types`` tell 1 from 1.0 and from True."""
    made = [torch.ones((1,) * leaf[1], dtype=leaf[0]) if isinstance(leaf, _Kind) else leaf for leaf in leaves]
    args, kwargs = pytree.tree_unflatten(made, structure)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - shapes of one element may be refused, too, which says nothing
        return bool(_NO_CODE.search(str(error)))
    return False
