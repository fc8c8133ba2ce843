"""Gradients that arrive at complex eigenvectors, which are left to eager.

An eigenvector is given up to a phase, and a loss that depends on the phase has no gradient: torch looks at the values
of what arrives, and refuses.  Of traced tensors, which have none, it says nothing.
Must not know: recording.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from aotgrad.errors import Unsupported

Pair = tuple[torch.Tensor, torch.Tensor]
"""Eigenvalues and eigenvectors."""


def eigenvectors(func: Callable[..., Pair], *args: object, **kwargs: object) -> Pair:
    """`func`, an operator that gives eigenvalues and eigenvectors; a graph goes back from the first alone."""
    result = func(*args, **kwargs)
    vectors = result[1]
    if vectors.requires_grad and vectors.is_complex():
        vectors.register_hook(_refuse)
    return result


def _refuse(gradient: torch.Tensor | None) -> None:
    if gradient is None:  # none arrives
        return
    raise Unsupported("complex eigenvectors have a gradient, whose values decide whether it is one", "run it eagerly")
