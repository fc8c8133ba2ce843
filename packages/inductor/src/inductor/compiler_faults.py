"""Flags that keep a C++ compiler from the mistakes that its version is known for.

A fault makes wrong code of right sources, without a word.  Each entry says in which versions it is and has a test that
builds what went wrong; its number is that of the compiler's own list, where it is known there.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Fault:
    """A mistake of GCC, the flags that avoid it, and the minor version that mended it in each major one."""

    number: int | None
    flags: tuple[str, ...]
    mended: Mapping[int, int] | None = None

    def is_in(self, version: Version) -> bool:
        """True if this version has the fault; major versions older than all listed ones have it, newer ones do not.

        Where nobody knows which one mended it, all have it.
        """
        if self.mended is None:
            return True
        major, minor = version
        return major <= max(self.mended) and minor < self.mended.get(major, minor + 1)


FAULTS = (
    # Masked loads of neighbours in another order: the order is lost.  Concatenated and padded rows of two numbers
    # repeated the first one.  Masked loads come from conditions in loops, which our own vectors do without.
    Fault(114375, ("-fno-tree-loop-if-convert",), mended={11: 5, 12: 4, 13: 3, 14: 1}),
    # Doubles that become floats and doubles again, some beside one another in straight code: nothing is rounded.
    # Found in 11.3 and 12.2.  What pays are vectors along loops, and those are ours.
    Fault(None, ("-fno-tree-slp-vectorize",)),
)


def flags_against_faults(command: Sequence[str]) -> tuple[str, ...]:
    """The flags to add to the command of this compiler."""
    version = _version_of_gcc(tuple(command))
    return tuple(flag for fault in FAULTS if version and fault.is_in(version) for flag in fault.flags)


@cache
def _version_of_gcc(command: tuple[str, ...]) -> Version | None:
    """The version of GCC, as its preprocessor says; None for other compilers and one that does not answer."""
    try:
        asked = subprocess.run(
            [*command, "-dM", "-E", "-x", "c++", "-"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = asked.stdout.decode(errors="replace")
    found = dict(re.findall(r"#define (__GNUC__|__GNUC_MINOR__|__clang__) (\d+)", said))
    if "__clang__" in found or len(found) < 2:
        return None
    return int(found["__GNUC__"]), int(found["__GNUC_MINOR__"])
