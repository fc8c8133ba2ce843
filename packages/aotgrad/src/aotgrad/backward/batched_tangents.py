"""Backward for tangents that no compiled kernel could read, operator by operator: torch's own operators take them.

They are several at once (`is_grads_batched`, `jacobian(vectorize=True)`), tensors of `vmap` without memory, or sparse.
Must not know: how a compiled pair is called.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from aotgrad.eager import Boxed, run_eagerly
from aotgrad.partitioning.partition import Half
from aotgrad.torch_versions import is_functorch_wrapped_tensor, is_legacy_batchedtensor, maybe_current_level


def compiled_or_batched(half: Callable[[], Half], tangents: int, make: Callable[[], Boxed]) -> Boxed:
    """`half` as it is compiled, by `make`, and its operators one by one for sparse tangents and those of a transform.
    It takes that many, behind all else.

    Nothing is compiled within a transform, which what is traced would be subject to.
    """
    compiled: Boxed | None = None
    one_by_one: Boxed | None = None
    lock = threading.Lock()

    def run(inputs: list[object]) -> Sequence[Any]:
        nonlocal compiled, one_by_one
        if maybe_current_level() is not None or any(map(_has_no_dense_memory, inputs[len(inputs) - tangents :])):
            if one_by_one is None:
                one_by_one = run_eagerly(half().module, half().example_inputs)
            return one_by_one(inputs)
        # Asked again under the lock: another thread may have compiled it meanwhile.
        if compiled is None:
            with lock:
                compiled = compiled or make()
        return compiled(inputs)

    return run


def _has_no_dense_memory(tangent: object) -> bool:
    return is_legacy_batchedtensor(tangent) or (isinstance(tangent, torch.Tensor) and not is_dense(tangent))


def is_dense(tangent: torch.Tensor) -> bool:
    return tangent.layout is torch.strided


def is_batched(value: torch.Tensor) -> bool:
    """True for a tensor of a functorch transform, such as `vmap`."""
    return bool(is_legacy_batchedtensor(value) or is_functorch_wrapped_tensor(value))
