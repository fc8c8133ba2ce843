"""The public face: functions are wrapped, steps marked, and reports read.

Without a CUDA device a captured function runs as it is and says so in ``refusal``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from .cuda import CudaDriver
from .driver import Boxed
from .eligible import check_graph, written_inputs
from .errors import CannotRecord, CudaGraphsError, Refusal, Refused
from .function import Function
from .manager import Manager
from .options import Options
from .pools import Pools
from .report import Report
from .state import STATE
from .torch_versions import INSIDES


class Captured:
    """A function whose calls are answered by replays wherever that is safe, with the function's own results."""

    def __init__(
        self, function: Function, manager: Manager | None, refusal: Refused | None, pools: Pools | None = None
    ) -> None:
        self._function, self._manager, self._pools = function, manager, pools
        self.refusal = refusal
        self.__name__ = function.name

    def __call__(self, *inputs: object, **named: object) -> Any:
        if named:
            raise CudaGraphsError(f"{self.__name__} takes its inputs by position, and got {', '.join(named)} by name")
        return self.call([*inputs])

    def call(self, inputs: list[Any]) -> Any:
        """Calls it with a list of inputs, which may be empty afterwards."""
        if self._manager is None or self.refusal is not None:
            return self._function.fn(inputs)
        if self._manager.sealed and self._pools is not None:
            self._manager = self._moved(self._manager, self._pools)
        if self._function.given_up:
            return self._function.fn(inputs)
        return self._manager.run(self._function, inputs)

    def _moved(self, manager: Manager, pools: Pools) -> Manager:
        """The manager to use from now on: another pool is as good for a function with nothing to replay."""
        if self._function.recordings() or pools.current() is manager:
            return manager
        self._function.try_in_another_pool()
        pools.current().adopt(self._function)
        return pools.current()

    def __repr__(self) -> str:
        state = f"refused: {self.refusal.reason.name}" if self.refusal else f"{self._function.recordings()} recordings"
        return f"<captured {self._function.name}, {state}>"


class CapturedModule(Captured):
    """A captured module, whose parameters and buffers are inputs too: a recording must notice when one is exchanged."""

    def __init__(self, module: torch.nn.Module, count: int, *captured: Any) -> None:
        super().__init__(*captured)
        self._module, self._count = module, count

    def __call__(self, *inputs: object, **named: object) -> Any:
        if named:
            return super().__call__(*inputs, **named)
        if len(inputs) != self._count:
            raise CudaGraphsError(
                f"{self.__name__} was captured with {self._count} example inputs and is called with {len(inputs)}"
            )
        return self.call([*inputs, *_state_of(self._module)])


def capture(
    fn: Callable[..., Any],
    example_inputs: Sequence[object],
    *,
    static_inputs: Iterable[int] = (),
    mutated_inputs: Iterable[int] = (),
    options: Options | None = None,
) -> Captured:
    """Wraps ``fn``, a callable of tensors and plain values that returns one tensor or a sequence of them.

    ``static_inputs`` are the indices of inputs that are expected to stay where they are, such as parameters; should
    one move, that is noticed.  ``mutated_inputs`` are those that ``fn`` changes by means that torch does not see, such
    as a kernel of its own; changes made through torch are seen without.
    """
    _check(fn, example_inputs)
    pools, refusal = _pools_for(example_inputs)
    captured = capture_on(
        pools, fn, example_inputs, static_inputs=static_inputs, mutated_inputs=mutated_inputs, options=options
    )
    # A reason of the function's own says more.
    if refusal is not None and captured.refusal is None:
        captured.refusal = refusal.refused(captured.__name__)
    return captured


def _check(fn: object, example_inputs: object) -> None:
    """Raises where what was given can never be called or recorded."""
    if any(cls.__name__ == "ExportedProgram" for cls in type(fn).__mro__):
        raise CudaGraphsError("cudagraphs.capture takes a callable, not an ExportedProgram: give program.module()")
    if not callable(fn):
        raise CudaGraphsError(f"cudagraphs.capture takes a callable of tensors, not {fn!r}")
    if not isinstance(example_inputs, Sequence) or isinstance(example_inputs, str):
        what = type(example_inputs).__name__
        raise CudaGraphsError(f"example_inputs is a {what}; give a list with a value for each argument of the function")


def _positions(given: Any, count: int) -> set[int]:
    """The given positions as a set; raises unless all are below ``count``."""
    try:
        positions = {operator.index(each) for each in given}
    except TypeError:
        raise CudaGraphsError(f"static_inputs and mutated_inputs are lists of positions, not {given!r}") from None
    if unknown := [index for index in positions if not 0 <= index < count]:
        raise CudaGraphsError(f"there is no input {unknown[0]}: {count} example inputs were given")
    return positions


def _chosen(options: object) -> Options:
    if not isinstance(options, Options | None):
        raise CudaGraphsError(f"options is {options!r}; give cudagraphs.Options(warmups=3), for one")
    return options or Options()


def capture_on(
    where: Manager | Pools | None,
    fn: Callable[..., Any],
    example_inputs: Sequence[object],
    *,
    static_inputs: Iterable[int] = (),
    mutated_inputs: Iterable[int] = (),
    options: Options | None = None,
) -> Captured:
    """``capture`` for a manager of one's own, say one over a simulated device."""
    manager, pools = _manager_and_pools(where)
    limits, count = _chosen(options), len(example_inputs)
    static, mutated = _positions(static_inputs, count), _positions(mutated_inputs, count)
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    refusal = _refusal_of(fn, name) if isinstance(fn, torch.fx.GraphModule) else None
    # A module's parameters are read in place, and passed in so that an exchanged one is noticed.
    if isinstance(fn, torch.nn.Module) and _state_of(fn):
        static |= set(range(count, count + len(_state_of(fn))))
        function = Function(lambda inputs: fn(*inputs[:count]), limits, static, mutated, name)
        captured: Captured = CapturedModule(fn, count, function, manager, refusal, pools)
    else:
        function = Function(lambda inputs: fn(*inputs), limits, static, mutated, name)
        captured = Captured(function, manager, refusal, pools)
    if manager is not None:
        manager.adopt(function, refusal)
    return captured


def capture_compiled(
    fn: Boxed,
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[object],
    *,
    name: str = "graph",
    static_inputs: Iterable[int] = (),
    options: Options | None = None,
    tell: Callable[[Refused], None] | None = None,
    where: Manager | Pools | None = None,
) -> Captured:
    """Wraps the compiled form of ``graph``: ``fn`` takes a list of inputs, which it may empty, and changes those that
    the graph changes.

    The examples may be fakes.  The caller's guards see to it that tensors arrive in the layouts of the examples, so
    only integers, numbers on the CPU and sizes that are symbols are looked at.  ``tell`` is called with every refusal,
    those of later calls too; ``where`` is a manager of one's own.
    """
    refusal = None
    if where is None:
        where, refusal = _pools_for(example_inputs)
    manager, pools = _manager_and_pools(where)
    # The graph itself says what it writes: kernels of a compiler change memory behind torch's back.
    function = Function(
        fn,
        _chosen(options),
        set(static_inputs),
        written_inputs(graph),
        name,
        unguarded=_unguarded(example_inputs),
        tell=tell,
    )
    refused = _refusal_of(graph, name)
    if refused is None and refusal is not None:
        refused = refusal.refused(name)
    if manager is not None:
        manager.adopt(function, refused)
    elif refused is not None and tell is not None:
        tell(refused)
    return Captured(function, manager, refused, pools)


def _manager_and_pools(where: Manager | Pools | None) -> tuple[Manager | None, Pools | None]:
    return (where.current(), where) if isinstance(where, Pools) else (where, None)


def _unguarded(example_inputs: Sequence[object]) -> tuple[int, ...]:
    """The inputs that guards leave open: all but tensors of the device whose sizes are constants."""
    return tuple(
        index
        for index, value in enumerate(example_inputs)
        if not isinstance(value, torch.Tensor)
        or value.device.type == "cpu"
        or value.is_complex()  # may be conjugated without a word
        or not all(type(size) is int for size in (*value.shape, *value.stride()))
    )


def _refusal_of(graph: torch.fx.GraphModule, name: str) -> Refused | None:
    try:
        check_graph(graph)
    except CannotRecord as error:
        return error.refused(name)
    return None


def _state_of(module: torch.nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]


def _pools_of(device: int) -> Pools:
    known = STATE.pools.get(device)
    if known is None:
        # Two threads may get here at once: ``setdefault`` keeps the first one's.
        known = STATE.pools.setdefault(device, Pools(lambda: Manager(CudaDriver(device))))
    return known


def manager_of(device: int) -> Manager:
    """The manager of a CUDA device: all that is recorded on it shares one pool."""
    count = torch.cuda.device_count()
    if not isinstance(device, int) or not 0 <= device < count:
        raise CudaGraphsError(f"cudagraphs.manager_of takes the number of one of {count} CUDA devices, not {device!r}")
    return _pools_of(device).current()


def step_begin(*, release: bool = False) -> None:
    """Marks the beginning of a new step of the program on the current device.  Never needed for right results.

    With ``release``, memory of earlier outputs is taken back even where they are still held, which saves recordings
    and copies; using such an output afterwards raises.
    """
    if torch.cuda.is_available():
        _pools(None).step_begin(release=release)


def report(device: int | None = None) -> Report:
    """The counts and refusals of a device, by default the current one."""
    return _pools(device).report() if torch.cuda.is_available() else Report()


def show(device: int | None = None) -> str:
    """The tree of a device, drawn."""
    return _pools(device).show() if torch.cuda.is_available() else "no CUDA device"


def reset(device: int | None = None) -> None:
    """Forgets all recordings of a device; captured functions warm up anew.  Tensors that are held stay intact."""
    if torch.cuda.is_available():
        _pools(device).reset()


def poison(device: int | None = None) -> None:
    """Fills all memory of recordings that nobody holds with NaN: an aid in the search for a mistake."""
    if torch.cuda.is_available():
        _pools(device).poison()


def _pools(device: int | None) -> Pools:
    return _pools_of(torch.cuda.current_device() if device is None else device)


def _pools_for(inputs: Sequence[object]) -> tuple[Pools | None, CannotRecord | None]:
    """The pools of the first CUDA device among the inputs; calls are checked against it one by one."""
    if not torch.cuda.is_available():
        return None, CannotRecord(Refusal.NO_CUDA)
    if INSIDES.unusable:
        return None, CannotRecord(Refusal.TORCH_LACKS, INSIDES.unusable)
    devices = [value.device for value in inputs if isinstance(value, torch.Tensor) and value.device.type == "cuda"]
    if not devices:
        return None, CannotRecord(Refusal.CPU_INPUT, "no input is on a CUDA device")
    try:
        return _pools(devices[0].index), None
    except RuntimeError as error:  # an allocator without private pools
        return None, CannotRecord(Refusal.DEVICE_FAILED, str(error).split("\n", 1)[0])
