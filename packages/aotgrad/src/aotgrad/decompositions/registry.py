"""The table of own decompositions, and the precision that they compute in.

Must not know: any operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from aotgrad.torch_versions import OpOverload

Rule = Callable[..., Any]

OWN: dict[OpOverload, Rule] = {}


def decomposition(*ops: OpOverload) -> Callable[[Rule], Rule]:
    """Register the decorated function for `ops`.

    It must be functional: it never writes to a tensor.  It may return NotImplemented to leave a call as it is.
    """

    def register(rule: Rule) -> Rule:
        for op in ops:
            if op in OWN:
                raise ValueError(f"{op} already has a decomposition")
            OWN[op] = rule
        return rule

    return register


def wide(value: torch.Tensor) -> torch.Tensor:
    """The value in the precision to compute in: half precisions compute in float32, as torch's kernels do."""
    return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value


def narrow(value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The value in the dtype of `like` again."""
    return value if value.dtype == like.dtype else value.to(like.dtype)
