"""Results that are views as they are traced, and tensors of their own in eager.

Torch's rules in Python, taken where sizes vary, end some operators in a view of what they made: a product of stacks of
matrices is one of a batched product.  A view refuses ``detach_`` and tells of its base, so it is replaced by a tensor
that is none.  What the operator itself gives is found by calling it on tensors without data.
Must not know: recording, which operators those are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard

import torch

from aotgrad.quiet import quiet
from aotgrad.tensors import functional
from aotgrad.tensors.symbols import SYM_TYPES, is_same
from aotgrad.tensors.views import owner_of
from aotgrad.torch_versions import (
    DisablePythonDispatcher,
    DisableTorchDispatch,
    add_batch_dim,
    aten,
    get_unwrapped,
    is_any_autocast_enabled,
    is_batchedtensor,
    is_functorch_wrapped_tensor,
    maybe_get_bdim,
    maybe_get_level,
    pytree,
)


def as_operators_give(
    func: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object], result: object
) -> object:
    """`result`, where views of what `func` made are tensors of their own if its operators give such."""
    several = result if isinstance(result, (tuple, list)) else (result,)
    if not any(map(_is_view, several)) or getattr(func, "__name__", "") == "__get__":
        return result
    leaves, structure = pytree.tree_flatten(result)
    given, owners = set(_owners(pytree.tree_leaves((args, kwargs)))), _owners(leaves)
    # Of several views of one tensor each has to know of the others' writes.
    fresh = [
        _is_view(leaf) and owners.count(owner) == 1 and owner not in given
        for leaf, owner in zip(leaves, owners, strict=True)
    ]
    expected = _in_eager(func, args, kwargs) if any(fresh) else ()
    if len(expected) != len(leaves):
        return result
    alone = [
        is_fresh and _is_tensor(each) and not _is_view(each) for is_fresh, each in zip(fresh, expected, strict=True)
    ]
    return pytree.tree_unflatten(
        [own(leaf) if yes else leaf for leaf, yes in zip(leaves, alone, strict=True)], structure
    )


def _owners(leaves: Sequence[object]) -> list[int]:
    """The identities of what autograd knows these tensors by."""
    return [id(owner_of(_within(leaf))) if _is_tensor(leaf) else 0 for leaf in leaves]


def own(view: torch.Tensor) -> torch.Tensor:
    """A view as a tensor that is none, over memory that nobody else has."""
    if not _is_view(view):
        return view
    base = owner_of(view)
    same = base.requires_grad == view.requires_grad and _lies_plainly(base, view.numel()) and _lies_plainly(view)
    owned: torch.Tensor = aten._unsafe_view.default(base if same else view, view.shape)
    return owned


def _in_eager(func: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> Sequence[object]:
    """The results of torch's own operators, without data; none where these need data."""
    try:
        with DisableTorchDispatch(), DisablePythonDispatcher(), functional.hidden(), quiet(), torch.device("meta"):
            given, named = pytree.tree_map_only((torch.Tensor, *SYM_TYPES), _without_data, (tuple(args), dict(kwargs)))
            found: Sequence[object] = pytree.tree_leaves(func(*given, **named))
            return found
    except Exception:  # noqa: BLE001 - its size depends on data, or it does more than compute
        return ()


def _without_data(value: torch.Tensor | int) -> object:
    """A tensor that lies as this one does in this call, without data; of those of `vmap` one of the same level."""
    if not isinstance(value, torch.Tensor):
        return _known(value)
    if is_batchedtensor(value):
        return add_batch_dim(_without_data(get_unwrapped(value)), maybe_get_bdim(value), maybe_get_level(value))
    sizes, strides = tuple(map(_known, value.shape)), tuple(map(_known, value.stride()))
    dtype = torch.float32 if value.is_floating_point() and is_any_autocast_enabled() else value.dtype
    return torch.empty_strided(sizes, strides, dtype=dtype, device="meta", requires_grad=value.requires_grad)


def _known(number: int | torch.SymInt) -> int:
    return number.node.hint if isinstance(number, SYM_TYPES) else number


def _is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor)


def _is_view(value: object) -> bool:
    return _is_tensor(value) and not value.is_inference() and bool(_within(value)._is_view())


def _within(value: torch.Tensor) -> torch.Tensor:
    """The tensor behind those that a transform hands over."""
    while is_functorch_wrapped_tensor(value):
        value = get_unwrapped(value)
    return value


def _lies_plainly(tensor: torch.Tensor, numel: int | torch.SymInt | None = None) -> bool:
    """True if the tensor, of that many elements, is contiguous for all sizes; nothing is asked of symbols."""
    dense: int | torch.SymInt = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if not is_same(stride, dense):
            return False
        dense = dense * size
    return numel is None or is_same(dense, numel)
