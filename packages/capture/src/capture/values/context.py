"""Torch's context managers: state of the library that is switched inside the graph and put back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from capture.torch_versions import (
    cache_enabled_of,
    enabled_of,
    enter_autocast,
    enter_inference_mode,
    exit_autocast,
    exit_inference_mode,
    set_grad_enabled,
)
from capture.values.base import Tracer, Value
from capture.values.function import BuiltinValue

_enter_autocast = enter_autocast
_exit_autocast = exit_autocast
_enter_inference = enter_inference_mode
_exit_inference = exit_inference_mode


class StateRecorder(Protocol):
    """What contexts need of the graph: a node that switches state, now and at run time."""

    def switch(self, function: Any, *args: Any) -> Any:
        """Record ``function(*args)``, run it, and return a handle for the switch back."""


class TorchContext(Value):
    """``cls(*args)`` for one of the classes below; active between ``enter`` and ``leave``.

    ``grad_mode_before`` it was entered is what it puts back, ``grad_mode_within`` what it was entered for.
    """

    grad_mode_before: bool
    grad_mode_within: bool

    def __init__(self, cls: type, args: Sequence[Any]) -> None:
        self.cls = cls
        self.args = tuple(args)
        self._handle: Any = None

    def python_type(self) -> type:
        return self.cls

    def attribute(self, ctx: Tracer, name: str) -> Value:
        if name == "__enter__":
            return BuiltinValue(enter_context, receiver=self)
        if name == "__exit__":
            return BuiltinValue(leave_context, receiver=self)
        if name == "clone":
            return BuiltinValue(clone_context, receiver=self)
        if name == "__call__":
            return BuiltinValue(decorate_by_context, receiver=self)
        if name in ("__class__",):
            return ctx.literal(self.cls)
        return ctx.stop("context", f"`{name}` of a `{self.cls.__name__}` context is read")

    def enter(self, graph: StateRecorder) -> None:
        self.grad_mode_before = self._mode_put_back()
        if issubclass(self.cls, torch.inference_mode):
            self._handle = graph.switch(_enter_inference, *self.args)
        elif issubclass(self.cls, torch.autocast):
            self._handle = graph.switch(_enter_autocast, *self.args)
        else:
            graph.switch(set_grad_enabled, self._target())
        self.grad_mode_within = torch.is_grad_enabled()

    def leave(self, graph: StateRecorder) -> None:
        if issubclass(self.cls, torch.inference_mode):
            graph.switch(_exit_inference, self._handle)
        elif issubclass(self.cls, torch.autocast):
            graph.switch(_exit_autocast, self._handle)
        else:
            graph.switch(set_grad_enabled, self.grad_mode_before)

    def _mode_put_back(self) -> bool:
        return torch.is_grad_enabled()

    def _target(self) -> bool:
        if issubclass(self.cls, torch.set_grad_enabled):
            return bool(self.args[0])
        return issubclass(self.cls, torch.enable_grad)


class GradModeSwitch(TorchContext):
    """``torch.set_grad_enabled(mode)`` switches when it is made, and again when it is entered."""

    def __init__(self, mode: bool, previous: bool) -> None:
        super().__init__(torch.set_grad_enabled, (mode,))
        self.previous = previous

    def _mode_put_back(self) -> bool:
        return self.previous


class DefaultDevice(TorchContext):
    """``with torch.device(d)``: what is made within is told its device, so that the graph needs no switch."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(torch.device, (device,))
        self.device = device

    def enter(self, graph: StateRecorder) -> None:
        self.grad_mode_before = self.grad_mode_within = torch.is_grad_enabled()
        self.device.__enter__()

    def leave(self, graph: StateRecorder) -> None:
        self.device.__exit__(None, None, None)


def enter_context(context: Any) -> Any:
    return context.__enter__()


def leave_context(context: Any, *exception: Any) -> Any:
    return context.__exit__(*exception)


def decorate_by_context(context: Any, function: Any) -> Any:
    return context(function)


def clone_context(context: Any) -> Any:
    return context.clone()


GRAD_CLASSES = (torch.no_grad, torch.enable_grad)


def autocast_arguments(made: Any) -> tuple[Any, ...]:
    return (made.device, made.fast_dtype, enabled_of(made), cache_enabled_of(made))
