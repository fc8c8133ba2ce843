"""Operators whose result torch can tell for one size only: were they recorded with a size that varies, there would
be a graph for each.

A recurrent network is unrolled, step by step.  Where its length varies CPython runs it, and the graph goes on behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from capture.builtin_rules.registry import fallback
from capture.values.base import Tracer, Value
from capture.values.tensor import TensorValue

_RECURRENT = (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)
_BATCH_FIRST = 8  # the position of the argument that says so; what is packed has fewer


@fallback(order=35)
def made_for_one_size(ctx: Tracer, function: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    if not ctx.options.nopython and _is_given_what_varies(function, args, kwargs):
        hint = "torch runs it as in eager; the rest of the function is captured"
        ctx.stop("varying size", f"`{function.__name__}` over a length that varies would be a graph for each", hint)
    return None


def _is_given_what_varies(function: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    if any(function is recurrent for recurrent in _RECURRENT):
        batch_first = len(args) > _BATCH_FIRST and args[_BATCH_FIRST].constant()
        return _varies(args[0], 1 if batch_first else 0)
    return False


def _varies(tensor: Value, dimension: int) -> bool:
    return isinstance(tensor, TensorValue) and isinstance(tensor.fake.shape[dimension], torch.SymInt)
