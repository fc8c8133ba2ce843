"""Write-back of arguments that autograd follows, with the history of their new values.

Must not know: graphs, how the new values were computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from aotgrad.errors import InputChanged, mark_final


def write_back(written: torch.Tensor, new: torch.Tensor, writes: int) -> torch.Tensor:
    """Writes the new values, whose history leads to the old ones only if they come from those: `copy_` alone would
    bring zeros there in any case.

    Of a view autograd needs the base's history, and a gradient that is kept hangs on its own.  Of several writes the
    last is this one: each gives a view another node of autograd's.
    """
    if not (written._is_view() or written.is_leaf or written.retains_grad):
        written.detach_()
    if writes > 1:
        note_changes([written] * (writes - 1))
    return written.copy_(new)


def note_changes(tensors: Iterable[torch.Tensor]) -> None:
    """Tells autograd that tensors were written behind its back."""
    changed = list(tensors)
    try:
        torch.autograd.graph.increment_version(changed)
    except RuntimeError:  # tensors of inference mode have no versions; to count others twice does no harm
        torch.autograd.graph.increment_version([tensor for tensor in changed if not tensor.is_inference()])


def refuse_inference_tensors() -> None:
    """Raises outside of inference mode, for a call that may write to a tensor made in it."""
    if not torch.is_inference_mode_enabled():
        raise InputChanged("a tensor that was made in inference mode is written to outside of it, which torch refuses")


def mark_final_if_written(error: BaseException, written: int, targets: Sequence[torch.Tensor]) -> None:
    """Marks a write's error as final where another write came before it, or where torch raises after having written."""
    if written or any(target.is_inference() for target in targets):
        mark_final(error)
