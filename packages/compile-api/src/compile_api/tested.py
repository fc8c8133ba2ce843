"""The releases of torch that this release was tested with, and the warning on a newer one.

The one list of them: the jobs of the repository read it, too.  Must not import anything of the package.
"""

from __future__ import annotations

from collections.abc import Callable

TESTED = {"2.11.0": "3.6.0", "2.12.1": "3.7.0", "2.13.0": "3.7.1", "2.14.1": "3.8.0"}
"""Releases of torch, and of triton that belongs to each."""
PAGE = "docs/torch_versions.md"


class NewerTorchWarning(UserWarning):
    """A torch that is newer than every release that was tested."""


def minor(version: str) -> tuple[int, int]:
    """The first two numbers of a version: ``2.14.1+cu130`` and ``2.15.0a0`` give (2, 14) and (2, 15)."""
    major, number, *_ = version.split(".")
    return int(major), int(number)


def tested_range() -> str:
    releases = sorted(map(minor, TESTED))
    return f"{releases[0][0]}.{releases[0][1]} to {releases[-1][0]}.{releases[-1][1]}"


def is_newer(version: str) -> bool:
    return minor(version) > max(map(minor, TESTED))


def complaint(version: str) -> str:
    """The warning for a newer torch; empty for others."""
    if not is_newer(version):
        return ""
    return (
        f"torch {version} is newer than every torch that this compile-api was tested with ({tested_range()}): what it "
        f"lacks of torch's insides runs eagerly; `compile-api verify` lists it, and {PAGE} says what that means"
    )


def warn_of_newer(version: str, warn: Callable[[Warning], None], warned: set[str]) -> None:
    """Warns of a newer torch once, as long as ``warned`` is kept."""
    if version in warned:
        return
    warned.add(version)
    if said := complaint(version):
        warn(NewerTorchWarning(said))
