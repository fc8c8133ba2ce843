"""Processors that kernels are built for in tests: the paths that this machine's own flags would never take."""

import platform
from dataclasses import replace

PORTABLE = "x86-64"
"""What every x86-64 processor has: the compiler's vector extension without instructions beyond SSE2."""
AVX2 = "x86-64-v3"


def built_for(processor, options):
    """The options with the flag that names the processor; None is this machine."""
    if processor is None or platform.machine() != "x86_64":
        return options
    return replace(options, cpp_flags=(*options.cpp_flags, f"-march={processor}"))
