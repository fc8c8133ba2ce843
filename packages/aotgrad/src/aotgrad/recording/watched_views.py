"""Arguments that are views, watched while the program is traced: did the last write to each give it another history?

Must not know: what the program does else.
"""

from __future__ import annotations

from typing import Any

import torch

from aotgrad.torch_versions import version_of


class Watched:
    """The watched arguments, with the version and the history that each had when last looked at."""

    def __init__(self) -> None:
        self._values: list[torch.Tensor] = []
        self._versions: list[int] = []
        self._histories: list[Any] = []
        self._unfollowed: set[int] = set()

    def add(self, value: torch.Tensor) -> None:
        version, history = version_of(value), value.grad_fn
        self._values.append(value)
        self._versions.append(version)
        self._histories.append(history)

    def look(self) -> None:
        """Notes writes; called after each operator, so it is fast for as many arguments as a model has parameters."""
        versions = list(map(version_of, self._values))
        if versions != self._versions:
            self._note(versions)

    def _note(self, versions: list[int]) -> None:
        for place, (value, version) in enumerate(zip(self._values, self._versions, strict=True)):
            if versions[place] != version:
                followed = value.grad_fn is not self._histories[place]
                (self._unfollowed.discard if followed else self._unfollowed.add)(id(value))
                self._histories[place] = value.grad_fn
        # Once more, as a history that is asked for may be made then.
        self._versions = list(map(version_of, self._values))

    def was_written_unfollowed(self, value: torch.Tensor) -> bool:
        """True if the last write gave the argument no history."""
        return id(value) in self._unfollowed
