"""Launchers: functions that start kernels on a GPU, made by the few lines of C++ in ``runtime/launcher.cpp``.

Through ctypes a start costs the host three times as much, and graphs of small kernels wait for the host.  Where there
is no C++ compiler they are started through ctypes all the same.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inductor.cuda_driver import Function
from inductor.errors import BuildError
from inductor.options import Options
from inductor.toolchain import HEADERS, Library, build


class _Start(ctypes.Structure):
    """The facts of a launch; the C++ side has a struct of the same name and fields."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("launch", "enter", "function", "context")),
        *((name, ctypes.c_int64) for name in ("blocks", "threads", "shared", "pointers", "numbers", "integers")),
    )


@dataclass(frozen=True, slots=True)
class Launchers:
    """A factory of launchers; ``library`` is None where it could not be built."""

    library: Library | None

    def __call__(
        self, name: str, function: Function, blocks: int, otherwise: Callable[..., None]
    ) -> Callable[..., None]:
        """A function ``launch(stream, *arguments)``, which calls ``otherwise`` in the rare cases."""
        if self.library is None:
            return otherwise
        new_launcher = ctypes.PyDLL(None, handle=self.library.functions._handle).new_launcher
        new_launcher.restype = ctypes.py_object
        new_launcher.argtypes = [ctypes.c_char_p, ctypes.POINTER(_Start), ctypes.py_object]
        taken = function.parameters
        start = _Start(
            function.launch, function.enter, function.address, function.context,
            blocks, function.threads, function.shared, taken.pointers, taken.numbers, taken.integers,
        )  # fmt: skip
        made: Any = new_launcher(name.encode(), ctypes.byref(start), otherwise)
        return made


def build_launchers(options: Options) -> Launchers:
    """The factory of launchers, without a library where there is no C++ compiler."""
    try:
        (library,) = build([(HEADERS / "launcher.cpp").read_text(encoding="utf-8")], options)
    except BuildError:
        return Launchers(None)
    return Launchers(library)
