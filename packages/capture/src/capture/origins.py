"""Origins of code, by the file that it was compiled from: torch, the standard library, what is installed, or us.

What is installed stays as it is while a program runs; the program's own files may be edited and loaded again.
"""

from __future__ import annotations

import os
import sysconfig
from types import CodeType

import torch

_PATHS = sysconfig.get_paths()
TORCH = os.path.dirname(torch.__file__) + os.sep
STANDARD_LIBRARY = _PATHS["stdlib"] + os.sep
PACKAGES = tuple({_PATHS[kind] + os.sep for kind in ("purelib", "platlib")})
"""Within the standard library's folder on many systems, so they are to be asked for first."""
OURS = frozenset({"capture", "aotgrad", "inductor", "cudagraphs", "compile_api"})
CAPTURE = os.path.dirname(__file__) + os.sep


def is_installed(code: CodeType) -> bool:
    """True if the code is an installed package's, torch's among them."""
    return code.co_filename.startswith(PACKAGES)
