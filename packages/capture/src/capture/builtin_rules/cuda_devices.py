"""``with torch.cuda.device(x.device):`` around the start of a kernel: nothing, where that device is the current one."""

from __future__ import annotations

from typing import NoReturn

import torch

from capture.builtin_rules.registry import rule
from capture.sources import CallSource
from capture.values.base import Tracer, Value
from capture.values.constant import ConstantValue


@rule(torch.cuda._exchange_device, torch.cuda._maybe_exchange_device, kinds=(ConstantValue,))
def exchange_device(ctx: Tracer, device: ConstantValue) -> Value:
    """The device that was current before."""
    if device.value < 0:
        return device
    if _current(ctx) != device.value:
        _leave(ctx)
    return device


@rule(torch.cuda.current_device)
def current_device(ctx: Tracer) -> Value:
    return ConstantValue(_current(ctx))


@rule(torch.cuda.set_device, kinds=(None,))
def set_device(ctx: Tracer, device: Value) -> Value:
    _leave(ctx)


def _current(ctx: Tracer) -> int:
    if not torch.cuda.is_available():
        ctx.stop("device", "the current GPU is asked for where there is none")
    current = torch.cuda.current_device()
    text = f"GPU {current} is the current one"
    ctx.guard(CallSource(torch.cuda.current_device, "torch.cuda.current_device()"), "equals", current, text=text)
    return current


def _leave(ctx: Tracer) -> NoReturn:
    ctx.stop("device", "another GPU becomes the current one", "call the function with that GPU current")
