"""Runs: functions that start kernels on the CPU, made from plans by the few lines of C++ in ``runtime/runner.cpp``.

They are builtin functions to Python, so that a call costs a tenth of one through ctypes.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from inductor.codegen.plans import Plan
from inductor.toolchain import HEADERS, Library

MakeRun: TypeAlias = Callable[[str, Plan], Callable[..., bool]]


def source() -> str:
    """The runner's own text, to be built beside the kernels."""
    return (HEADERS / "runner.cpp").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Runner:
    """A factory of runs over the kernels of ``libraries``; ``own`` is the runner's library."""

    own: Library
    libraries: Sequence[Library]

    def __call__(self, name: str, plan: Plan) -> Callable[..., bool]:
        needed = {step.function for stretch in plan.stretches for wave in stretch.waves for step in wave}
        numbers = array("q", plan.numbers({function: self._address(function) for function in needed}))
        new_run = ctypes.PyDLL(None, handle=self.own.functions._handle).new_run
        new_run.restype = ctypes.py_object
        new_run.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64]
        made: Any = new_run(name.encode(), numbers.buffer_info()[0], len(numbers))
        return made

    def _address(self, function: str) -> int:
        home = next(library for library in self.libraries if hasattr(library.functions, function))
        address = ctypes.cast(getattr(home.functions, function), ctypes.c_void_p).value
        assert address is not None
        return address
