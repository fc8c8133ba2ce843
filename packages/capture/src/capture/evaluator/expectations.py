"""Data-dependent values that evaluation takes for granted; the graph gives the truth of them.

Each expectation is a value and the truth it is expected to have, asked after the graph.  Tensors' are joined to one
tensor for all, because asking means waiting for a device.
"""

from __future__ import annotations

import torch

from capture.values.base import Tracer, Value
from capture.values.constant import ConstantValue
from capture.values.tensor import TensorValue

Expectations = list[tuple[Value, bool]]


def add_expectation(ctx: Tracer, expectations: Expectations, value: Value, truth: bool) -> bool:
    """Notes an expectation; False where nobody can say what a tensor's truth is: it has many items, or none."""
    if not isinstance(value, TensorValue):
        expectations.append((value, truth))
    elif value.fake.numel() == 1:
        expectations.append((_joined(ctx, expectations, value, truth), True))
    else:
        return False
    return True


def _joined(ctx: Tracer, expectations: Expectations, value: TensorValue, truth: bool) -> Value:
    """The check of a tensor's truth, joined with the last one where both are on one device."""
    check = ctx.record(torch.ne if truth else torch.eq, [value, ConstantValue(0)], {})
    last = expectations[-1][0] if expectations else None
    if isinstance(last, TensorValue) and last.fake.device == value.fake.device:
        expectations.pop()
        return ctx.record(torch.logical_and, [last, check], {})
    return check
