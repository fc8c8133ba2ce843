"""Torch's contexts that outlive the evaluated code, made once each, and entered once if the program is inside.

An object may be built early, as part of a list or an attribute that is written; it is entered when all is written, in
the order in which the program entered it and in the modes that it found.
"""

from __future__ import annotations

import functools

import torch

from capture.recording.library_modes import modes_kept
from capture.torch_versions import set_grad_enabled
from capture.values.context import DefaultDevice, GradModeSwitch, Modes, ProfilerRange, TorchContext
from capture.writing.writer import Writer, builds

CONTEXT_METHODS = {
    "enter_context": "__enter__",
    "leave_context": "__exit__",
    "clone_context": "clone",
    "decorate_by_context": "__call__",
}


@builds(TorchContext, GradModeSwitch)
def build_context(writer: Writer, value: TorchContext) -> None:
    writer.call_const(functools.partial(_made, value.cls, value.args, value.device, value.before, value.was_left))
    writer.emit.copy()
    writer.keep(value, "context")


@builds(DefaultDevice)
def build_default_device(writer: Writer, value: DefaultDevice) -> None:
    writer.emit.load_const(value.place)


@builds(ProfilerRange)
def build_range(writer: Writer, value: ProfilerRange) -> None:
    writer.call_const(value.cls, *value.args)
    writer.emit.copy()
    writer.keep(value, "context")


def _made(cls: type, args: tuple[object, ...], device: str | None, before: Modes | None, was_left: bool) -> object:
    """The object with what entering it left in it; the library's modes stay as they are."""
    with modes_kept(() if device is None else (device,)):
        if before is not None:
            set_grad_enabled(before.grad)
            if before.autocast is not None:
                _set_autocast(device, *before.autocast)
        made = cls(*args)
        if was_left:
            made.__enter__()
            made.__exit__(None, None, None)
    return made


def _set_autocast(device: str | None, enabled: bool, dtype: torch.dtype, caches: bool) -> None:
    assert device is not None
    torch.set_autocast_enabled(device, enabled)
    torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_cache_enabled(caches)


def enter_contexts(writer: Writer, contexts: list[TorchContext], mode: bool, mode_left: bool) -> None:
    """Enters the contexts that the program is in, and leaves the grad mode as the program did.

    The graph put the library's state back; code that CPython runs next must find it as the program left it.
    """
    emit = writer.emit
    for context in contexts:
        assert context.before is not None
        _set_grad_mode(writer, mode, context.before.grad)  # what it puts back, not what this frame began with
        mode = context.grad_mode_within
        writer.load(context)
        emit.load_attr("__enter__")
        emit.to_callable()
        emit.call(0)
        emit.pop()
    _set_grad_mode(writer, mode, mode_left)


def _set_grad_mode(writer: Writer, mode: bool, wanted: bool) -> None:
    if mode != wanted:
        writer.call_const(functools.partial(set_grad_enabled, wanted))
        writer.emit.pop()
