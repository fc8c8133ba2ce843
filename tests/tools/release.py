"""Checks that what would be released agrees with itself.

``python tests/tools/release.py`` reads the papers: versions, dated changelogs, the ranges in which the packages need
one another.  ``python tests/tools/release.py dist`` also looks for a wheel of each package, of capture one for each
Python and for manylinux.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("capture", "aotgrad", "inductor", "cudagraphs", "compile-api")
PYTHONS = ("3.11", "3.12", "3.13")
_HEADING = re.compile(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", re.MULTILINE)


def distribution(package: str) -> str:
    return package if package == "compile-api" else f"compile-api-{package}"


def version(package: str) -> str:
    source = ROOT / "packages" / package / "src" / package.replace("-", "_") / "__init__.py"
    found = re.search(r'^__version__ = "(.+)"$', source.read_text(), re.MULTILINE)
    assert found, f"{source} names no version"
    return found[1]


def _project(package: str) -> dict[str, object]:
    return tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text())["project"]


def undated(package: str) -> Iterator[str]:
    """The newest heading of the changelog has to be this version with its date."""
    heading = _HEADING.search((ROOT / "packages" / package / "CHANGELOG.md").read_text())
    if heading is None or heading[1] != version(package):
        newest = heading[0] if heading else "no dated heading"
        yield f"{package}: the changelog begins with {newest!r}, the version is {version(package)}"


def incomplete(package: str) -> Iterator[str]:
    """What an index shows of a project."""
    project = _project(package)
    for key in ("description", "readme", "license", "license-files", "requires-python", "keywords", "classifiers"):
        if not project.get(key):
            yield f"{package}: pyproject.toml has no {key}"


def out_of_range(package: str) -> Iterator[str]:
    """A release of ``compile-api`` has to be installable with the engines of the same tree."""
    project = _project(package)
    extras = project.get("optional-dependencies", {})
    assert isinstance(extras, dict)
    needed = [*project["dependencies"], *(each for extra in extras.values() for each in extra)]  # type: ignore[misc]
    for other in PACKAGES:
        for need in needed:
            bounds = re.fullmatch(rf"{distribution(other)}(?:\[\w+\])?>=([\d.]+),<([\d.]+)", need)
            if bounds and not _numbers(bounds[1]) <= _numbers(version(other)) < _numbers(bounds[2]):
                yield f"{package}: needs {need}, but {other} is {version(other)}"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def missing_wheels(folder: Path) -> Iterator[str]:
    names = [path.name for path in folder.glob("*.whl")]
    for package in PACKAGES:
        stem = f"{distribution(package).replace('-', '_')}-{version(package)}"
        tags = ["py3-none-any"]
        if package == "capture":
            numbers = [python.replace(".", "") for python in PYTHONS]
            tags = [f"cp{number}-cp{number}-.*manylinux.*" for number in numbers]
        for tag in tags:
            if not any(re.fullmatch(f"{re.escape(stem)}-{tag}\\.whl", name) for name in names):
                yield f"{package}: no wheel {stem}-{tag}"


def faults(folder: Path | None = None) -> list[str]:
    checks = (undated, incomplete, out_of_range)
    found = [fault for package in PACKAGES for check in checks for fault in check(package)]
    return found + (list(missing_wheels(folder)) if folder else [])


def main(arguments: Sequence[str]) -> int:
    found = faults(Path(arguments[0]) if arguments else None)
    print("\n".join(found) or "versions, changelogs and ranges agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
