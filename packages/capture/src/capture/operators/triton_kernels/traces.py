"""Starts of kernels by Python that runs on fake tensors, as a backend traces it.

That is what a graph holds as a whole, the forward and backward of a ``torch.autograd.Function``.  While such Python
runs, ``kernel[grid](...)`` of tensors without data is the operator; of real tensors it is what it always is, on
whatever thread.

Must not know: what is evaluated or recorded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from capture import state
from capture.operators.triton_kernels.planning import Refused, covers, plan
from capture.torch_versions import base_of, is_functional_tensor

_REAL = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def is_fake(value: object) -> bool:
    """True for a tensor without data of its own, or something that holds one."""
    if isinstance(value, (list, tuple)):
        return any(map(is_fake, value))
    return isinstance(value, torch.Tensor) and (type(value) not in _REAL or is_functional_tensor(value))


def apply_traced(function: Any, args: Sequence[object]) -> Any:
    """Calls ``apply`` of a ``torch.autograd.Function``, whose kernels are operators forward and backward."""
    if "triton.runtime.jit" not in sys.modules or not is_fake(args):
        return function.apply(*args)
    with _ways_for_fakes():
        return _traceable(function).apply(*args)


@cache
def _traceable(function: Any) -> Any:
    """A subclass of the function whose backward takes fakes, too: autograd calls it later, and perhaps on another
    thread."""

    def backward(ctx: Any, *grads: object) -> object:
        if not is_fake(grads):
            return function.backward(ctx, *grads)
        with _ways_for_fakes():
            return function.backward(ctx, *grads)

    return type(function)(function.__name__, (function,), {"backward": staticmethod(backward)})


@contextmanager
def _ways_for_fakes() -> Iterator[None]:
    """A context in which Triton's ``kernel[grid]`` has a second way, for tensors without data.

    It is there while anybody traces, on any thread; ``kernel.run`` with such tensors leads nowhere meanwhile.
    """
    replaced = state.PROCESS.tracing_kernels
    with replaced.lock:
        replaced.users += 1
        if replaced.users == 1:
            _put_in(replaced)
    try:
        yield
    finally:
        with replaced.lock:
            replaced.users -= 1
            while replaced.users == 0 and replaced.originals:
                cls, name, original = replaced.originals.pop()
                setattr(cls, name, original)


def _put_in(replaced: state.ReplacedMethods) -> None:
    """Puts the second way into Triton's classes."""
    _replace(replaced, sys.modules["triton.runtime.jit"].KernelInterface, "__getitem__", _launcher)
    _replace(replaced, sys.modules["triton.runtime.jit"].JITFunction, "run", _only_with_data)
    if (interpreter := sys.modules.get("triton.runtime.interpreter")) is not None:
        _replace(replaced, interpreter.InterpretedFunction, "run", _only_with_data)


def _replace(replaced: state.ReplacedMethods, cls: type, name: str, by: Callable[[Any], object]) -> None:
    original = vars(cls)[name]
    replaced.originals.append((cls, name, original))
    setattr(cls, name, by(original))


def _launcher(original: Callable[..., Callable[..., object]]) -> Callable[[object, object], Callable[..., object]]:
    """``__getitem__`` of kernels, with an operator in the place of a start on tensors without data."""

    def with_grid(kernel: object, grid: object) -> Callable[..., object]:
        def launch(*args: object, **kwargs: object) -> Any:
            if is_fake([*args, *kwargs.values()]):
                return start(kernel, grid, args, kwargs)
            return original(kernel, grid)(*args, **kwargs)

        return launch

    return with_grid


def _only_with_data(original: Callable[..., object]) -> Callable[..., object]:
    """``run`` of kernels, which refuses tensors without data: nothing could make an operator of it."""

    def run(kernel: object, *args: object, **kwargs: object) -> object:
        if is_fake([*args, *kwargs.values()]):
            raise Refused("a Triton kernel is started by `run` on tensors without data")
        return original(kernel, *args, **kwargs)

    return run


def start(kernel: object, grid: object, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Calls the operator that stands for this start of a kernel."""
    operator, tensors, *numbers = plan(_Python(), kernel, grid, args, kwargs)
    operator(*tensors, *numbers)


class _Python:
    """Calls of kernels by Python itself: every item is the object."""

    def seen(self, item: object) -> Any:
        return item

    item = seen

    def holder(self, item: torch.Tensor, *, written: bool) -> torch.Tensor | None:
        return next((tensor for tensor in (item, base_of(item)) if tensor is not None and covers(tensor)), None)

    def layout(self, item: torch.Tensor, holder: torch.Tensor) -> list[object]:
        return [*item.size(), *item.stride(), item.storage_offset() - holder.storage_offset()]

    def call(self, function: Callable[[dict[str, object]], object], meta: Mapping[str, object]) -> object:
        return function(dict(meta))

    def is_function(self, item: object) -> bool:
        return callable(item)

    def parts(self, item: Any) -> list[Any]:
        if not isinstance(item, (tuple, list)):
            raise Refused("its grid is not one to three whole numbers")
        return list(item)
