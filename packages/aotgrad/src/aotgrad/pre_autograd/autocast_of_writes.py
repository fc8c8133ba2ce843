"""Autocast kept off operators that write to a tensor, in place or by `out=`, as torch keeps it off.

Autocast has rules for operators that give a new tensor alone.  Functionalization runs those in place of the ones that
write, and autocast would meet them: `m.addmm_(a, b)` would be a product of halves, where eager's is one of floats.
Must not know: recording, gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from aotgrad.errors import Unsupported
from aotgrad.torch_versions import DisableAutocast

_MULTIPLY_ON_THE_WAY = frozenset((
    "tensordot", "pinverse", "linalg_pinv", "linalg_matrix_power", "matrix_power", "linalg_multi_dot", "chain_matmul",
))  # fmt: skip
"""Operators made of others, whose products on the way to `out` autocast does meet."""


def as_torch_casts(name: str, kwargs: Mapping[str, object], *, in_place: bool) -> AbstractContextManager[object]:
    """The context in which the operator of this name runs within a region of autocast."""
    out = kwargs.get("out") is not None
    if not (in_place or out):
        return nullcontext()
    if out and name in _MULTIPLY_ON_THE_WAY:
        raise Unsupported(f"{name} writes to `out` under autocast", "call it outside of autocast")
    return DisableAutocast()
