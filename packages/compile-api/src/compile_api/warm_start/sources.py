"""The packages as they are, by the contents of their files: a version alone tells nothing while they are worked on."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from functools import cache
from pathlib import Path


@cache
def sources_of(packages: Sequence[str]) -> str:
    """A digest of the modules of these packages."""
    digest = hashlib.sha256()
    for package in packages:
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            for path in sorted(Path(folder).rglob("*.py")):
                digest.update(f"{path.relative_to(folder)}\n{path.stat().st_size}\n".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()
