"""Quantiles that a tensor tells: eager looks whether they are within 0 and 1, which fakes cannot.

The graph looks as well; where one is not, the frame starts over in CPython, and the error is eager's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from capture.evaluator.world import World
from capture.reasons import Kind
from capture.values.base import Value
from capture.values.constant import ConstantValue
from capture.values.scalar import ScalarValue
from capture.values.tensor import TensorValue

_NAMES = frozenset({"quantile", "nanquantile"})


def quantiles_within_range(
    ctx: World, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value | None:
    """Has the graph check the quantiles; the operator is recorded as any other."""
    if getattr(function, "__name__", "") not in _NAMES or not args or not isinstance(args[0], TensorValue):
        return None
    wanted = args[1] if len(args) > 1 else kwargs.get("q")
    if isinstance(wanted, TensorValue) and args[0].fake.device.type == "cpu" and _is_like(wanted.fake, args[0].fake):
        least = ctx.record(torch.ge, [wanted, ConstantValue(0)], {})
        greatest = ctx.record(torch.le, [wanted, ConstantValue(1)], {})
        within = ctx.record(torch.all, [ctx.record(torch.logical_and, [least, greatest], {})], {})
        assert isinstance(within, TensorValue)
        if not ctx.expect(ScalarValue(bool, tensor=within), True):
            hint = "it runs as in eager; the rest of the function is captured"
            ctx.stop(Kind.ERROR_IN_AN_OPERATION, "eager looks whether quantiles are within 0 and 1", hint)
    return None


def _is_like(quantiles: torch.Tensor, values: torch.Tensor) -> bool:
    """True if eager refuses nothing else about the quantiles, which would come first."""
    return quantiles.device == values.device and quantiles.dtype == values.dtype and quantiles.dim() < 2
