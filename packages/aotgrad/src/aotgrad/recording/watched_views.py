"""Arguments that are views, watched while the program is traced: did the last write to each give it another history?

Must not know: what the program does else.
"""

from __future__ import annotations

from typing import Any

import torch

from aotgrad.torch_versions import version_of


class Watched:
    def __init__(self) -> None:
        self._last: dict[int, tuple[torch.Tensor, int, Any]] = {}
        self._unfollowed: set[int] = set()

    def add(self, value: torch.Tensor) -> None:
        self._last[id(value)] = value, int(version_of(value)), value.grad_fn

    def look(self) -> None:
        """To be called after each operator."""
        for key, (value, version, history) in self._last.items():
            if version_of(value) != version:
                followed = value.grad_fn is not history
                (self._unfollowed.discard if followed else self._unfollowed.add)(key)
                self._last[key] = value, int(version_of(value)), value.grad_fn

    def was_written_unfollowed(self, value: torch.Tensor) -> bool:
        """Whether the last write has no history."""
        return id(value) in self._unfollowed
