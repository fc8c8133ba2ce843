"""A file of what came of each case, so that a run that was stopped goes on where it ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Record:
    """A line of JSON before each case and one after it.

    A case that has only the first took the process down: it is told as such and not tried again.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.ended: dict[str, dict[str, Any]] = {}
        for line in path.read_text().splitlines() if path and path.exists() else ():
            entry = json.loads(line)
            self.ended[entry["case"]] = entry

    def __contains__(self, name: str) -> bool:
        return name in self.ended

    def is_right(self, name: str) -> bool:
        return bool(self.ended[name].get("right"))

    def told(self, name: str) -> str:
        """The lines about a case; of one that never ended, that it took the process down."""
        return str(self.ended[name].get("told", f"{name} took the process down"))

    def begin(self, name: str) -> None:
        """Written before the case runs: if the process ends in it, that is known."""
        self._write({"case": name})

    def end(self, name: str, right: bool, whole: bool, told: str) -> None:
        """Replaces the line before, for whoever reads the file again."""
        self._write({"case": name, "right": right, "whole": whole, "told": told})

    def _write(self, entry: dict[str, Any]) -> None:
        self.ended[entry["case"]] = entry
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(entry) + "\n")
