"""Frames that CPython runs when the hook meets them: packages by name, each with its reason, and files by place.

What captured code calls is evaluated with it, wherever it is from; this is about frames that would be captured by
themselves.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import CodeType

from capture.origins import CAPTURE, OURS, PACKAGES, STANDARD_LIBRARY, TORCH

_ARRAYS = "it computes on arrays, and holds no tensors"
_TESTS = "it runs tests: what it calls is what may be captured"
_OF_OURS = "an engine of ours: a backward pass may compile while a region runs"

PACKAGES_LEFT_ALONE: Mapping[str, str] = {
    "numpy": _ARRAYS,
    "scipy": _ARRAYS,
    "pandas": _ARRAYS,
    "matplotlib": _ARRAYS,
    "sympy": "torch's symbols for sizes are its expressions: it runs while a graph is recorded",
    "triton": "a compiler: a kernel may be compiled while a region runs",
    "pytest": _TESTS,
    "_pytest": _TESTS,
    "pluggy": _TESTS,
    "hypothesis": _TESTS,
    "typing_extensions": "what the standard library's `typing` has in later versions of Python",
    **dict.fromkeys(sorted(OURS - {"capture"}), _OF_OURS),
}

# What of torch is written as programs are, and worth capturing where a program's own frame broke.  Of its optimizers
# only whole steps are: where those break, too, they break once for every parameter.
_PROGRAMS = (
    os.path.join(TORCH, "nn", "modules") + os.sep,
    os.path.join(TORCH, "ao", "nn") + os.sep,
    os.path.join(TORCH, "optim", "optimizer.py"),
    os.path.join(TORCH, "amp", "grad_scaler.py"),
)
_CALLS_OF_MODULES = os.sep + "module.py"  # between a module and the one that it calls; both are looked at
_WITHOUT_A_FILE = ("<frozen", "<generated: ")  # the second is what a compiler wrote


def is_captured(code: CodeType, module: str) -> bool:
    """True if a frame of this code is worth evaluating when the hook meets it; callees are inlined regardless."""
    filename = code.co_filename
    if filename.startswith((*_WITHOUT_A_FILE, CAPTURE)) or module.partition(".")[0] in PACKAGES_LEFT_ALONE:
        return False
    if filename.startswith(TORCH):
        return filename.startswith(_PROGRAMS) and not filename.endswith(_CALLS_OF_MODULES)
    return filename.startswith(PACKAGES) or not filename.startswith(STANDARD_LIBRARY)


def passes_on(code: CodeType) -> bool:
    """True if the code stands between a module and what is called of it."""
    return code.co_filename.startswith(_PROGRAMS) and code.co_filename.endswith(_CALLS_OF_MODULES)
