"""Operators whose result torch can tell for one size only: were they recorded with a size that varies, there would
be a graph for each.

A recurrent network is unrolled, step by step; windows and grids take their length as a plain number.  Where that varies
CPython runs them, and the graph goes on behind.  Pooling over one dimension is pooling over two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional as nnf

from capture.builtin_rules.registry import fallback
from capture.values.base import Tracer, Value
from capture.values.constant import ConstantValue
from capture.values.sequence import SequenceValue, TupleValue
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue

_RECURRENT = (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)
_BATCH_FIRST = 8  # the position of the argument that says so; what is packed has fewer
_OF_A_LENGTH = (
    *(torch.linspace, torch.logspace),
    *(torch.hann_window, torch.hamming_window, torch.blackman_window, torch.bartlett_window, torch.kaiser_window),
)
# What pooling over one dimension is over another one of size 1.
_BESIDE = {"kernel_size": 1, "stride": 1, "padding": 0, "dilation": 1}


@fallback(order=35)
def made_for_one_size(ctx: Tracer, function: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    if function is nnf.max_pool1d and args and _varies(args[0], -1):
        return _pooled_as_an_image(ctx, args, kwargs)
    if not ctx.options.nopython and _is_given_what_varies(function, args, kwargs):
        hint = "torch runs it as in eager; the rest of the function is captured"
        ctx.stop("varying size", f"`{function.__name__}` over a length that varies would be a graph for each", hint)
    return None


def _is_given_what_varies(function: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    if any(function is recurrent for recurrent in _RECURRENT):
        batch_first = len(args) > _BATCH_FIRST and args[_BATCH_FIRST].constant()
        return _varies(args[0], 1 if batch_first else 0)
    if any(function is made for made in _OF_A_LENGTH):
        return any(isinstance(arg, SymbolicNumber) for arg in (*args, *kwargs.values()))
    return False


def _varies(tensor: Value, dimension: int) -> bool:
    return isinstance(tensor, TensorValue) and isinstance(tensor.fake.shape[dimension], torch.SymInt)


def _pooled_as_an_image(ctx: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    options = dict(zip((*_BESIDE, "ceil_mode", "return_indices"), args[1:], strict=False)) | dict(kwargs)
    if "stride" not in options or options["stride"].python_type() is type(None):
        options["stride"] = options["kernel_size"]
    options |= {name: _of_two(options[name], beside) for name, beside in _BESIDE.items() if name in options}
    above = ConstantValue(-2)
    pooled = ctx.record(nnf.max_pool2d, [ctx.record(torch.unsqueeze, [args[0], above], {})], options)
    lines = [ctx.record(torch.squeeze, [image, above], {}) for image in _all_of(pooled)]
    return TupleValue(lines) if isinstance(pooled, SequenceValue) else lines[0]


def _all_of(pooled: Value) -> list[Value]:
    """What is pooled, and the places it is from where they are asked for."""
    return list(pooled.items) if isinstance(pooled, SequenceValue) else [pooled]


def _of_two(option: Value, beside: int) -> Value:
    """An option for one dimension, which may be a tuple of one, as one for two."""
    return TupleValue([ConstantValue(beside), *_all_of(option)])
