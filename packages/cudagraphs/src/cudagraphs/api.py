"""The public face: wrap a callable, mark steps, see what happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from .cuda import CudaDriver
from .driver import Driver
from .errors import Refusal, Refused
from .function import Function
from .manager import Manager
from .options import Options
from .report import Report
from .show import show_tree


@cache
def manager_of(device: int) -> Manager:
    """The manager of a CUDA device: everything recorded on it shares one pool."""
    return Manager(CudaDriver(device))


class Captured:
    """A function whose calls are answered by replays where that is safe.  Returns what the function returns."""

    def __init__(self, function: Function, manager: Manager | None) -> None:
        self.function, self.manager = function, manager

    def __call__(self, *inputs: Any) -> Any:
        if self.manager is None:
            return self.function.fn(*inputs)
        return self.manager.run(self.function, inputs)

    @property
    def refusal(self) -> Refused | None:
        """Why nothing of this function is ever recorded, if that is so."""
        return Refused(self.function.name, self.function.refusal) if self.function.refusal else None
