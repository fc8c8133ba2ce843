"""Operators that give a tensor another layout in place, refused where older views of it have a history.

Autograd makes such a view's history anew by the calls that made the view.  On real tensors it does so by strides, which
still point at the same elements; on functional ones by the calls themselves, which would meet the new layout.
Must not know: recording.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from aotgrad.errors import Unsupported

NEW_LAYOUT = frozenset({"t_", "transpose_", "swapaxes_", "swapdims_", "unsqueeze_", "squeeze_", "as_strided_"})


def refuse_older_views(target: object, views: Iterable[torch.Tensor]) -> None:
    """Refuses a new layout of a tensor that one of the views, with a history, was taken of."""
    if any(view._base is target and view.requires_grad for view in views):
        raise Unsupported("the layout of a tensor with views is changed in place", "make a view of the new layout")
