"""Torch's context managers: state of the library that is switched inside the graph and put back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from capture.reasons import Kind
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


_GRAD_MODES = (torch.no_grad, torch.enable_grad, torch.set_grad_enabled)


class StateRecorder(Protocol):
    """The part of the graph that contexts need: it records a node that switches state, now and at run time."""

    def switch(self, function: object, *args: object) -> object:
        """Record ``function(*args)``, run it, and return a handle for the switch back."""


@dataclass(frozen=True, slots=True)
class Modes:
    """The modes that a context finds when it is entered, and keeps to put them back."""

    grad: bool
    autocast: tuple[bool, torch.dtype, bool] | None = None  # of the context's device

    @classmethod
    def now(cls, device: str | None) -> Modes:
        if device is None:
            return cls(torch.is_grad_enabled())
        caches = torch.is_autocast_cache_enabled()
        return cls(
            torch.is_grad_enabled(), (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device), caches)
        )


class TorchContext(Value):
    """``cls(*args)`` for one of the classes below; active between ``enter`` and ``leave``.

    ``before`` is what it found when it was entered last, and puts back; ``grad_mode_within`` what it was entered for.
    """

    before: Modes | None = None
    grad_mode_within: bool

    def __init__(self, cls: type, args: Sequence[Any]) -> None:
        self.cls = cls
        self.args = tuple(args)
        self.was_left = False  # and not entered again
        self._handle: object = None

    def python_type(self) -> type:
        return self.cls

    @property
    def device(self) -> str | None:
        """The device whose modes it switches, if it is one for autocast."""
        return self.args[0] if issubclass(self.cls, torch.autocast) else None

    @property
    def is_grad_mode(self) -> bool:
        """True if it switches the mode of gradients alone, which may be put back in any order."""
        return issubclass(self.cls, _GRAD_MODES)

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
        return ctx.stop(Kind.CONTEXT, f"`{name}` of a `{self.cls.__name__}` context is read")

    def enter(self, graph: StateRecorder) -> None:
        """Switches the state now, for the fakes, and in the graph, for the run."""
        self.was_left = False
        self.before = self._found()
        if issubclass(self.cls, torch.inference_mode):
            self._handle = graph.switch(_enter_inference, *self.args)
        elif issubclass(self.cls, torch.autocast):
            self._handle = graph.switch(_enter_autocast, *self.args)
        else:
            graph.switch(set_grad_enabled, self._target())
        self.grad_mode_within = torch.is_grad_enabled()

    def leave(self, graph: StateRecorder) -> None:
        """Puts back what was found on entry, now and in the graph."""
        if issubclass(self.cls, torch.inference_mode):
            graph.switch(_exit_inference, self._handle)
        elif issubclass(self.cls, torch.autocast):
            graph.switch(_exit_autocast, self._handle)
        else:
            # A value and no handle is put back: grad modes may be left in another order than they were entered.
            assert self.before is not None
            graph.switch(set_grad_enabled, self.before.grad)

    def _found(self) -> Modes:
        """The modes in force before it."""
        return Modes.now(self.device)

    def _target(self) -> bool:
        if issubclass(self.cls, torch.set_grad_enabled):
            return bool(self.args[0])
        return issubclass(self.cls, torch.enable_grad)


class GradModeSwitch(TorchContext):
    """``torch.set_grad_enabled(mode)`` switches when it is made, and again when it is entered.

    What it puts back is what it was made in.
    """

    def __init__(self, mode: bool, previous: bool) -> None:
        super().__init__(torch.set_grad_enabled, (mode,))
        self.before = Modes(previous)

    def _found(self) -> Modes:
        assert self.before is not None
        return self.before


class DefaultDevice(TorchContext):
    """``with torch.device(d)``: what is made within is told its device, so that the graph needs no switch."""

    def __init__(self, place: torch.device) -> None:
        super().__init__(torch.device, (place,))
        self.place = place

    def enter(self, graph: StateRecorder) -> None:
        self.before = self._found()
        self.grad_mode_within = torch.is_grad_enabled()
        self.place.__enter__()

    def leave(self, graph: StateRecorder) -> None:
        self.place.__exit__(None, None, None)


class ProfilerRange(TorchContext):
    """``record_function(name, args)``: a graph's operations are not grouped under a name; what follows it is."""

    def __init__(self, name: Value, args: Value) -> None:
        super().__init__(torch.autograd.profiler.record_function, (name, args))

    def attribute(self, ctx: Tracer, name: str) -> Value:
        if name not in ("__enter__", "__exit__", "__class__"):
            ctx.stop(Kind.CONTEXT, f"`{name}` of a `record_function` is read")
        return super().attribute(ctx, name)

    def enter(self, graph: StateRecorder) -> None:
        self.before = self._found()
        self.grad_mode_within = torch.is_grad_enabled()

    def leave(self, graph: StateRecorder) -> None:
        """Leaves everything as it is: nothing was switched."""

    def parts(self) -> Iterator[Value]:
        return iter(self.args)


def enter_context(context: Any) -> object:
    return context.__enter__()


def leave_context(context: Any, *exception: object) -> object:
    return context.__exit__(*exception)


def decorate_by_context(context: Any, function: object) -> object:
    return context(function)


def clone_context(context: Any) -> object:
    return context.clone()


def autocast_arguments(made: Any) -> tuple[Any, ...]:
    return (made.device, made.fast_dtype, enabled_of(made), cache_enabled_of(made))
