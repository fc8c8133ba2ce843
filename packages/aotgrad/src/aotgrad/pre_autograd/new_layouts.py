"""Operators that give a tensor another layout in place, and what is refused for them.

Autograd makes the history of a view anew, when its memory was written to, by the calls that made the view.  On real
tensors it does so by strides, which still point at the same elements; on functional ones by the calls themselves, which
would meet a base of another layout, or leave out a change of the view's own.
Must not know: recording.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from aotgrad.errors import Unsupported
from aotgrad.tensors.views import owner_of
from aotgrad.torch_versions import base_of, pytree

NEW_LAYOUT = frozenset({"t_", "transpose_", "swapaxes_", "swapdims_", "unsqueeze_", "squeeze_", "as_strided_"})
_HINT = "make a view of the new layout"


class NewLayouts:
    """The tensors with views, and the views, that got another layout in place."""

    def __init__(self) -> None:
        self._bases: list[torch.Tensor] = []

    def __bool__(self) -> bool:
        return bool(self._bases)

    def note(self, target: object, views: Iterable[torch.Tensor]) -> None:
        """Notes a change of layout; refuses it where an older view of the tensor has a history."""
        if not isinstance(target, torch.Tensor):
            return
        older = [view for view in views if base_of(view) is target]
        if any(view.requires_grad for view in older):
            raise Unsupported("the layout of a tensor with views is changed in place", _HINT)
        if older or base_of(target) is not None:
            self._bases.append(owner_of(target))

    def refuse_write(self, written: object, operands: object) -> None:
        """Refuses a write that gives a history to memory of which something got another layout."""
        if not torch.is_grad_enabled():
            return
        given = [leaf for leaf in pytree.tree_leaves((written, operands)) if isinstance(leaf, torch.Tensor)]
        if not any(tensor.requires_grad for tensor in given):
            return
        for tensor in pytree.tree_leaves(written):
            if isinstance(tensor, torch.Tensor) and any(base is owner_of(tensor) for base in self._bases):
                raise Unsupported("what views show is written after a change of layout in place", _HINT)
