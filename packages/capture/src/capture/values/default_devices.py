"""The device of what is made without being told one: that of ``torch.set_default_device`` or ``with torch.device(d)``.

The first is in force around a graph, which relies on it.  The second is switched within the function: there operators
are told, so that the graph says it.  Must not know how operators are recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from capture.torch_versions import (
    DeviceContext,
    device_constructors,
    get_current_function_mode_stack,
    len_torch_function_stack,
)
from capture.values.base import Tracer, Value, realize
from capture.values.constant import ConstantValue
from capture.values.context import DefaultDevice


def in_force() -> tuple[torch.device, ...]:
    """The default devices that somebody set."""
    modes = get_current_function_mode_stack()
    return tuple(mode.device for mode in modes if isinstance(mode, DeviceContext))


def is_overridden() -> bool:
    """True if a mode of somebody else decides what torch's functions do."""
    return len_torch_function_stack() > len(in_force())


def innermost(contexts: Sequence[Value]) -> DefaultDevice | None:
    """The default device that the program entered last and has not left."""
    return next((context for context in reversed(contexts) if isinstance(context, DefaultDevice)), None)


def placed(ctx: Tracer, target: object, kwargs: Mapping[str, Value]) -> Mapping[str, Value]:
    """The options of an operator, with the device that a context within the function gives it."""
    context = innermost(ctx.effects.contexts)
    if context is None or isinstance(target, str) or target not in device_constructors():
        return kwargs
    given = kwargs.get("device")
    if given is not None and realize(ctx, given).python_type() is not type(None):
        return kwargs
    return {**kwargs, "device": ConstantValue(context.place)}
