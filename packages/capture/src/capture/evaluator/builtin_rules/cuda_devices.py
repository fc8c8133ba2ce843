"""GPUs: the current one is relied on, and what a device is like holds as long as the process lives.

``with torch.cuda.device(x.device):`` around the start of a kernel is nothing where that device is the current one.
"""

from __future__ import annotations

from typing import NoReturn

import torch

from capture.evaluator.builtin_rules.registry import constant_of, rule
from capture.guards.kinds import GuardKind
from capture.guards.sources import CallSource
from capture.reasons import Kind
from capture.torch_versions import exchange_device as exchange_device_of_torch
from capture.torch_versions import maybe_exchange_device
from capture.values.base import Tracer, Value
from capture.values.constant import NONE, ConstantValue


@rule(exchange_device_of_torch, maybe_exchange_device, kinds=(ConstantValue,))
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


class Properties(ConstantValue):
    """The properties of a device, read from C by a descriptor that only C knows."""

    def attribute(self, ctx: Tracer, name: str) -> Value:
        return ctx.literal(getattr(self.value, name))


@rule(torch.cuda.get_device_properties)
def get_device_properties(ctx: Tracer, device: Value = NONE) -> Value:
    asked = constant_of(ctx, device)
    return Properties(torch.cuda.get_device_properties(_current(ctx) if asked is None else asked))


@rule(torch.cuda.device_count)
def device_count(ctx: Tracer) -> Value:
    return ConstantValue(torch.cuda.device_count())


@rule(torch.cuda.set_device, kinds=(None,))
def set_device(ctx: Tracer, device: Value) -> Value:
    _leave(ctx)


def _current(ctx: Tracer) -> int:
    if not torch.cuda.is_available():
        ctx.stop(Kind.DEVICE, "the current GPU is asked for where there is none")
    current = torch.cuda.current_device()
    text = f"GPU {current} is the current one"
    ctx.guard(
        CallSource(torch.cuda.current_device, "torch.cuda.current_device()"), GuardKind.EQUALS, current, text=text
    )
    return current


def _leave(ctx: Tracer) -> NoReturn:
    ctx.stop(Kind.DEVICE, "another GPU becomes the current one", "call the function with that GPU current")
