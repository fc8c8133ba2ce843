"""The library's modes around a graph that switches them: where it raises half way they are put back.

Must not know how graphs are recorded or compiled.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence

import torch
from torch import fx

from capture.torch_versions import enter_autocast, enter_inference_mode, exit_inference_mode, set_grad_enabled

_enter_autocast = enter_autocast
_SWITCHES = (
    set_grad_enabled,
    _enter_autocast,
    enter_inference_mode,
)


class _Modes:
    """The modes in force when it is made; of autocast only those of the devices that are asked for."""

    def __init__(self, devices: Collection[str]) -> None:
        self.grad = torch.is_grad_enabled()
        self.inference = torch.is_inference_mode_enabled()
        self.autocast = [
            (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in devices
        ]
        self.depth = _autocast_depth() if devices else 0
        self.caches = torch.is_autocast_cache_enabled()

    def put_back(self) -> None:
        if torch.is_inference_mode_enabled() is not self.inference:
            _set_inference_mode(self.inference)
        set_grad_enabled(self.grad)
        if not self.autocast:
            return
        for device, enabled, dtype in self.autocast:
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(self.caches)
        for _ in range(_autocast_depth() - self.depth):
            torch.autocast_decrement_nesting()
        # Torch clears the cache of casts when the outermost autocast is left, which was left in no regular way here.
        if not self.depth:
            torch.clear_autocast_cache()


def _set_inference_mode(enabled: bool) -> None:
    """Switches inference mode for good, which torch does for the time of an object only: each puts back what it found.

    Of two objects the second found what is wanted, and is left last.
    """
    first, second = enter_inference_mode(enabled), enter_inference_mode(enabled)
    exit_inference_mode(first)
    exit_inference_mode(second)


@contextlib.contextmanager
def modes_kept(devices: Collection[str] = ("cpu", "cuda")) -> Iterator[None]:
    """A context that leaves the modes as they were, those of autocast for ``devices``, also where it fails half way."""
    before = _Modes(devices)
    try:
        yield
    finally:
        before.put_back()


def _autocast_depth() -> int:
    """The depth of autocasts, which torch tells only to who changes it."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def with_modes_put_back(call: Callable[..., object], module: fx.GraphModule) -> Callable[..., object]:
    """``call``, which runs ``module`` and regions in it; after an error of it the modes are what they were before."""
    graphs = [part.graph for part in module.modules() if isinstance(part, fx.GraphModule)]
    nodes = (node for graph in graphs for node in graph.nodes if node.op == "call_function")
    switches = [node for node in nodes if node.target in _SWITCHES]
    if not switches:
        return call
    devices = {str(node.args[0]) for node in switches if node.target is _enter_autocast}
    return PuttingModesBack(call, sorted(devices))


class PuttingModesBack:
    """The compiled graph, after an error of which the modes are what they were, those of autocast for ``devices``."""

    def __init__(self, compiled: Callable[..., object], devices: Sequence[str]) -> None:
        self.compiled = compiled
        self.devices = devices
        self.all_or_nothing = getattr(compiled, "all_or_nothing", False)
        self.raises_where_noted = getattr(compiled, "raises_where_noted", False)
        self.is_final = getattr(compiled, "is_final", None)

    def __call__(self, *args: object) -> object:
        before = _Modes(self.devices)
        try:
            return self.compiled(*args)
        except BaseException as error:  # a program that is interrupted must find its modes as they were, too
            traceback.clear_frames(error.__traceback__)  # inference mode lasts as long as the frame that entered it
            before.put_back()
            raise
