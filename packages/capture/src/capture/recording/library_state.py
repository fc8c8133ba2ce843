"""The library's state that every graph relies on: gradients, autocast, modes, transforms, defaults."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from capture.recording import saved_tensors
from capture.torch_versions import (
    get_deterministic_algorithms,
    get_tracing_state,
    is_any_autocast_enabled,
    len_torch_dispatch_stack,
    len_torch_function_stack,
    maybe_current_level,
)
from capture.values import default_devices

# Functions without arguments: the engine asks each in every call, and compares the answer.
_STATE: tuple[tuple[str, Callable[[], object]], ...] = (
    ("is_grad_enabled", torch.is_grad_enabled),
    ("is_inference_mode_enabled", torch.is_inference_mode_enabled),
    ("is_any_autocast_enabled", is_any_autocast_enabled),
    ("number of function modes", len_torch_function_stack),
    ("number of dispatch modes", len_torch_dispatch_stack),
    ("level of functorch", maybe_current_level),
    ("get_default_dtype", torch.get_default_dtype),
    ("are_deterministic_algorithms_enabled", get_deterministic_algorithms),
    *((("what torch.jit traces", get_tracing_state),) if get_tracing_state else ()),
)


def library_state(hooked: bool) -> dict[str, Callable[[], object]]:
    """The questions to torch whose answers all code relies on, by their names; details only of what is on.

    Code may ask for a mode or set one, and compilers of graphs do.
    """
    state = list(_STATE)
    state.append(("hooks on saved tensors", saved_tensors.are_shown if hooked else saved_tensors.innermost))
    if default_devices.in_force():
        state.append(("default devices", default_devices.in_force))
    if is_any_autocast_enabled():
        for device in ("cpu", "cuda"):
            state.append((f"is_autocast_enabled for {device}", functools.partial(torch.is_autocast_enabled, device)))
            state.append((f"get_autocast_dtype for {device}", functools.partial(torch.get_autocast_dtype, device)))
    return {f"torch.{name}": function for name, function in state}
