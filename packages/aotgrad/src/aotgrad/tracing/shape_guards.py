"""Conditions on sizes under which a graph traced with dynamic sizes holds.

Must not know: graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from aotgrad.tracing.inputs import Signature

ShapeGuard = Callable[[Sequence[Any]], bool]


def shape_guard(signature: Signature) -> ShapeGuard:
    """A check of real arguments against everything that tracing assumed about sizes."""
    # Imported here because it takes half a second, which static sizes need not wait.
    from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP

    tensors = [entry for entry in signature.inputs if isinstance(entry.value, torch.Tensor)]
    shape_env = signature.fake_mode.shape_env
    condition = shape_env.produce_guards_expression([entry.value for entry in tensors], ignore_static=False)
    if not condition:
        return lambda leaves: True
    names = [f"t{index}" for index in range(len(tensors))]
    positions = [entry.position for entry in tensors]
    code = compile(condition, "<aotgrad sizes>", "eval")

    def accepts(leaves: Sequence[object]) -> bool:
        arguments = dict(zip(names, (leaves[position] for position in positions), strict=True))
        return bool(eval(code, dict(SYMPY_INTERP), {"L": arguments}))

    return accepts
