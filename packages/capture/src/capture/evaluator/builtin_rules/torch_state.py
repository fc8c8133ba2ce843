"""Torch's modes and settings: rules for whatever reads them, and for contexts and functions that switch them.

Where a graph begins, every version relies on them (``recording/library_state``); here is what the code itself does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import torch
from torch.autograd.profiler import record_function

from capture.evaluator.builtin_rules.notices import noticed
from capture.evaluator.builtin_rules.registry import constant_of, rule
from capture.evaluator.world import World
from capture.guards.kinds import GuardKind
from capture.guards.sources import CallSource
from capture.reasons import Kind
from capture.signals import let_through
from capture.torch_versions import (
    accelerator_getAccelerator,
    context_decorator,
    cuda_isCurrentStreamCapturing,
    len_torch_function_stack,
)
from capture.torch_versions import set_grad_enabled as set_grad_mode
from capture.values import default_devices
from capture.values.base import Tracer, Value
from capture.values.constant import FALSE, NONE, TRUE, ConstantValue
from capture.values.context import (
    DefaultDevice,
    GradModeSwitch,
    TorchContext,
    autocast_arguments,
    clone_context,
    decorate_by_context,
    enter_context,
    leave_context,
)
from capture.values.function import BuiltinValue, FunctionValue


def _reading(function: Callable[..., object], *, guarded: bool) -> None:
    """Registers a function that reads state; the answer is relied on where no other guard says so."""

    def read(ctx: World, *args: Value, **kwargs: Value) -> Value:
        operands = [constant_of(ctx, arg) for arg in args]
        try:
            answer = function(*operands)
        except Exception as error:  # noqa: BLE001 - where there is no device, say; programs catch it
            let_through(error)
            # The error is relied on as an answer would be: where there is a device in a later call, the guard fails.
            if not operands:
                raised, text = _raised_by(function), f"{function.__name__}() raised {type(error).__name__}"
                ctx.guard(CallSource(raised, f"torch.{function.__name__}()"), GuardKind.EQUALS, raised(), text=text)
            ctx.throw(type(error), *error.args)
        # What is not guarded here may have been switched by the code: relied on is what it was at the beginning, which
        # of most of these is among the state that every version relies on (``library_state``).
        if not guarded:
            _rely_on_state(ctx, function, *operands)
        else:
            text = f"{function.__name__}() was {answer}"
            ctx.guard(CallSource(function, f"torch.{function.__name__}()"), GuardKind.EQUALS, answer, text=text)
        return ctx.literal(answer)

    rule(function)(read)


def _rely_on_state(ctx: World, function: Callable[..., object], *operands: object) -> None:
    """Relies on an answer of torch's at the beginning: another one within the code follows from it."""
    name = f"torch.{function.__name__}" + "".join(f" for {operand}" for operand in operands)
    ctx.state_read[name] = partial(function, *operands) if operands else function


@cache
def _raised_by(function: Callable[..., object]) -> Callable[[], str]:
    """A function that names the error of one that reads state: of a named one, which another process finds too."""
    return partial(error_of, function)


def error_of(function: Callable[..., object]) -> str:
    """The error that a function raises, as text; an empty text where it has an answer."""
    try:
        function()
    except Exception as error:  # noqa: BLE001 - where there is no device, say
        return f"{type(error).__name__}: {error}"
    return ""


# Grad mode, inference mode, autocast, the default device and dtype, and whether algorithms are to be deterministic are
# guarded for every graph, at its entry; what is read here may have been switched since.
for _name in (
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_autocast_enabled",
    "get_autocast_dtype",
    "is_autocast_cache_enabled",
    "get_default_device",
    "get_default_dtype",
    "are_deterministic_algorithms_enabled",
):
    _reading(getattr(torch, _name), guarded=False)
_reading(len_torch_function_stack, guarded=False)
for _function in (
    torch.get_num_threads,
    torch.cuda.is_available,
    accelerator_getAccelerator,
    torch.is_deterministic_algorithms_warn_only_enabled,
):
    _reading(_function, guarded=True)
if torch.backends.cuda.is_built():  # otherwise it only raises, which is for the program to see
    _reading(cuda_isCurrentStreamCapturing, guarded=True)


def _grad_context(cls: type) -> Callable[..., Value]:
    def make(ctx: World, function: Value | None = None) -> Value:
        # Without a function it is a context, with one a decorator.
        context = TorchContext(cls, ())
        return context if function is None else decorate(ctx, context, function)

    return make


for _cls in (torch.no_grad, torch.enable_grad):
    rule(_cls)(_grad_context(_cls))


@rule(torch.set_grad_enabled, kinds=(None,))
def set_grad_enabled(ctx: World, mode: Value) -> Value:
    # Torch converts it, or raises.
    if mode.python_type() is not bool:
        ctx.stop(Kind.CONTEXT, "`set_grad_enabled` is given something that is no bool")
    previous = torch.is_grad_enabled()
    enabled = mode.truth(ctx)
    # From here on the instruction cannot be taken back and given to CPython.
    ctx.commit()
    # In the graph and for the fakes at once: what follows is recorded under the mode.
    ctx.graph.switch(set_grad_mode, enabled)
    return GradModeSwitch(enabled, previous)


@rule(set_grad_mode, kinds=(ConstantValue,))
def switch_grad_mode(ctx: World, mode: ConstantValue) -> Value:
    ctx.commit()
    ctx.graph.switch(set_grad_mode, mode.value)
    return NONE


@rule(torch.inference_mode)
def make_inference_mode(ctx: World, mode: Value = TRUE) -> Value:
    if isinstance(mode, FunctionValue):
        return decorate(ctx, TorchContext(torch.inference_mode, (True,)), mode)
    return TorchContext(torch.inference_mode, (mode.constant(),))


def _autocast(cls: type) -> Callable[..., Value]:
    """The rule for one of the classes of autocast."""

    def make(ctx: World, *args: Value, **kwargs: Value) -> Value:
        given = [constant_of(ctx, arg) for arg in args], {k: constant_of(ctx, v) for k, v in kwargs.items()}
        # A real one is made, for its checks and warnings, and thrown away.
        made = noticed(ctx, lambda: cls(*given[0], **given[1]))
        # Its defaults.
        _rely_on_state(ctx, torch.get_autocast_dtype, made.device)
        _rely_on_state(ctx, torch.is_autocast_cache_enabled)
        return TorchContext(torch.autocast, autocast_arguments(made))

    return make


for _cls in (torch.autocast, torch.amp.autocast, torch.cpu.amp.autocast, torch.cuda.amp.autocast):
    rule(_cls)(_autocast(_cls))


@rule(decorate_by_context, kinds=(TorchContext, None))
def decorate(ctx: Tracer, context: TorchContext, function: Value) -> Value:
    if issubclass(context.cls, (torch.autocast, torch.set_grad_enabled)):  # whose decorators do more
        hint = "use it in a with statement"
        ctx.stop(Kind.CONTEXT, f"`{context.cls.__name__}` decorates a function in the captured code", hint)
    made = BuiltinValue(clone_context, receiver=context)
    return ctx.call(ctx.literal(context_decorator), [made, function])


_CONTEXTS = (
    *(torch.no_grad, torch.enable_grad, torch.set_grad_enabled, torch.inference_mode),
    *(torch.autocast, record_function),
)
_GIVE_THEMSELVES = (torch.autocast, record_function)


@rule(*(cls.__enter__ for cls in _CONTEXTS), enter_context, kinds=(TorchContext,))
def enter(ctx: World, context: TorchContext) -> Value:
    """Enters a context, in the graph and for the fakes."""
    # They keep what was before in themselves, once.
    if context in ctx.effects.contexts:
        ctx.stop(Kind.CONTEXT, f"a `{context.cls.__name__}` context is entered a second time")
    if issubclass(context.cls, torch.inference_mode) and not _is_held(ctx):
        hint = "use it in a with statement"
        ctx.stop(Kind.CONTEXT, "`inference_mode` is entered by a call, and ends with its object", hint)
    ctx.commit()
    # The fakes that follow are computed in the mode, and the graph has a node that switches it.
    context.enter(ctx.graph)
    ctx.effects.enter(context)
    return context if issubclass(context.cls, _GIVE_THEMSELVES) else NONE


def _is_held(ctx: World) -> bool:
    """True if a statement, or the standard library's code, enters a context: those keep it until they leave it."""
    return ctx.frames[-1].current.op == "BEFORE_WITH" or ctx.frames[-1].function.namespace.trusted


@rule(*(cls.__exit__ for cls in _CONTEXTS), leave_context, kinds=(TorchContext, None, None, None))
def leave(ctx: World, context: TorchContext, *exception: Value) -> Value:
    """Leaves a context, in an order in which each finds what it has to put back."""
    active, name = ctx.effects.contexts, context.cls.__name__
    # Grad modes put back what they found, in any order; others have to be left in the order in which they were entered.
    if not context.is_grad_mode:
        later = active[active.index(context) + 1 :] if context in active else None
        if later is None or not all(each.is_grad_mode for each in later):
            ctx.stop(Kind.CONTEXT, f"a `{name}` context is left that is not the last that was entered")
    elif context.before is None:
        ctx.stop(Kind.CONTEXT, f"a `{name}` context is left that was not entered")
    ctx.commit()
    context.leave(ctx.graph)
    context.was_left = True
    if context in active:
        ctx.effects.leave(context)
    return FALSE if issubclass(context.cls, torch.autocast) else NONE


@rule(torch.device.__enter__, kinds=(ConstantValue,))
def enter_default_device(ctx: World, device: ConstantValue) -> Value:
    enter(ctx, DefaultDevice(device.value))
    return device


@rule(torch.device.__exit__, kinds=(ConstantValue,))
def leave_default_device(ctx: World, device: ConstantValue, *exception: Value) -> Value:
    context = default_devices.innermost(ctx.effects.contexts)
    if context is None or context.place != device.value:
        ctx.stop(Kind.CONTEXT, f"the default device {device.value} was set outside of this function")
    leave(ctx, context)
    return NONE


@rule(clone_context, kinds=(TorchContext,))
def clone(ctx: World, context: TorchContext) -> Value:
    if isinstance(context, GradModeSwitch):
        return set_grad_enabled(ctx, ConstantValue(*context.args))
    return TorchContext(context.cls, context.args)
