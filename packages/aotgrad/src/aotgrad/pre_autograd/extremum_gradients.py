"""Gradients of the largest, smallest and middle element of a whole tensor: zeros where it is not, whatever arrives.

On a CPU eager fills in the elements that are the result.  Traced tensors have no elements, so autograd multiplies what
arrives by a mask, as it does on GPUs, where an inf or NaN comes to all elements; a hook on its node fills in the zeros.
Must not know: recording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from aotgrad.tensors.subclasses import is_wrapped
from aotgrad.torch_versions import is_functorch_wrapped_tensor

_NODES = frozenset({"MaxBackward1", "MinBackward1", "MedianBackward0", "NanmedianBackward0"})


def extreme(function: Callable[..., Any], *args: object, **kwargs: object) -> Any:
    """The result of `function`, with eager's gradient; along a dimension that is torch's own."""
    result = function(*args, **kwargs)
    node = result.grad_fn if isinstance(result, torch.Tensor) else None
    if node is not None and node.name() in _NODES and not _is_multiplied(node._saved_self):
        node.register_hook(partial(_zeros_elsewhere, node))
    return result


def _is_multiplied(input: torch.Tensor) -> bool:
    """True if eager multiplies as well: on GPUs, and for tensors that stand for others."""
    return input.is_cuda or is_wrapped(input) or is_functorch_wrapped_tensor(input)


def _zeros_elsewhere(node: Any, found: Sequence[Any], arrived: Sequence[Any]) -> tuple[Any, ...] | None:
    if found[0] is None:
        return None
    input, result = node._saved_self, node._saved_result
    is_result = (input == result) | (input.isnan() & result.isnan())
    return (found[0].masked_fill(~is_result, 0), *found[1:])
