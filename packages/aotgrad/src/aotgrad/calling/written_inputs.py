"""Arguments that autograd follows, written back with the history of their new values.

Must not know: graphs, how the new values were computed.
"""

from __future__ import annotations

import torch


def write_back(written: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """The new values know where the old ones come from, if they come from those: `copy_` alone would bring zeros there
    in any case.  Of a view autograd needs the base's history, and a gradient that is kept hangs on its own."""
    if not (written._is_view() or written.is_leaf or written.retains_grad):
        written.detach_()
    return written.copy_(new)
