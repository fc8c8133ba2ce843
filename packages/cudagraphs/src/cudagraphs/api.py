"""The public face: wrap a callable, mark steps, see what happened.

Without a CUDA device a captured function runs as it is and says so in ``refusal``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import torch

from .cuda import CudaDriver
from .eligible import check_graph
from .errors import CannotRecord, CudaGraphsError, Refusal, Refused
from .function import Function
from .manager import Manager
from .options import Options
from .report import Report
from .show import show_tree


class Captured:
    """A function whose calls are answered by replays wherever that is safe.  Returns what the function returns."""

    def __init__(self, function: Function, manager: Manager | None, refusal: Refused | None = None) -> None:
        self._function, self._manager = function, manager
        self.refusal = refusal
        self.__name__ = function.name

    def __call__(self, *inputs: Any) -> Any:
        if self._manager is None or self.refusal is not None:
            return self._function.fn(*inputs)
        return self._manager.run(self._function, inputs)

    def __repr__(self) -> str:
        state = f"refused: {self.refusal.reason.name}" if self.refusal else f"{self._function.recordings()} recordings"
        return f"<captured {self._function.name}, {state}>"


def capture(
    fn: Callable[..., Any],
    example_inputs: Sequence[Any],
    *,
    static_inputs: Iterable[int] = (),
    mutated_inputs: Iterable[int] = (),
    options: Options | None = None,
) -> Captured:
    """Wrap ``fn``, a callable of tensors and plain values that returns one tensor or a sequence of them.

    ``static_inputs`` are the indices of inputs that stay where they are, such as parameters; should one move, that is
    noticed.  ``mutated_inputs`` are those that ``fn`` changes by means that torch does not see, such as a kernel of its
    own; changes made through torch are seen without.
    """
    device = _device_of(example_inputs)
    manager = manager_of(device) if device is not None else None
    captured = capture_on(
        manager, fn, example_inputs, static_inputs=static_inputs, mutated_inputs=mutated_inputs, options=options
    )
    if manager is None:
        no_device = Refusal.CPU_INPUT if torch.cuda.is_available() else Refusal.NO_CUDA
        captured.refusal = captured.refusal or Refused(captured.__name__, no_device)
    return captured


def capture_on(
    manager: Manager | None,
    fn: Callable[..., Any],
    example_inputs: Sequence[Any],
    *,
    static_inputs: Iterable[int] = (),
    mutated_inputs: Iterable[int] = (),
    options: Options | None = None,
) -> Captured:
    """``capture`` for a manager of one's own, say one over a simulated device."""
    static, mutated = frozenset(static_inputs), frozenset(mutated_inputs)
    if unknown := [index for index in static | mutated if not 0 <= index < len(example_inputs)]:
        raise CudaGraphsError(f"there is no input {unknown[0]}: {len(example_inputs)} example inputs were given")
    function = Function(fn, options or Options(), static, mutated)
    refusal = None
    if isinstance(fn, torch.fx.GraphModule):
        try:
            check_graph(fn)
        except CannotRecord as error:
            refusal = error.refused(function.name)
    if manager is not None:
        manager.adopt(function, refusal)
    return Captured(function, manager, refusal)


@cache
def manager_of(device: int) -> Manager:
    """The manager of a CUDA device: all that is recorded on it shares one pool."""
    return Manager(CudaDriver(device))


def step_begin(*, release: bool = False) -> None:
    """Say that a new step of the program begins on the current device.  Never needed for right results.

    With ``release``, memory of earlier outputs is taken back even where they are still held, which saves recordings
    and copies; using such an output afterwards raises.
    """
    if torch.cuda.is_available():
        manager_of(torch.cuda.current_device()).step_begin(release=release)


def report(device: int | None = None) -> Report:
    """What happened on a device, by default the current one."""
    return _manager(device).report() if torch.cuda.is_available() else Report()


def show(device: int | None = None) -> str:
    """The tree of a device, drawn."""
    return show_tree(_manager(device).tree) if torch.cuda.is_available() else "no CUDA device"


def reset(device: int | None = None) -> None:
    """Forget all recordings of a device; captured functions warm up anew.  Tensors that are held stay intact."""
    if torch.cuda.is_available():
        _manager(device).reset()


def _manager(device: int | None) -> Manager:
    return manager_of(torch.cuda.current_device() if device is None else device)


def _device_of(inputs: Sequence[Any]) -> int | None:
    """The first CUDA device among the inputs; calls are checked against it one by one."""
    if not torch.cuda.is_available():
        return None
    devices = [value.device for value in inputs if isinstance(value, torch.Tensor) and value.device.type == "cuda"]
    return devices[0].index if devices else None
