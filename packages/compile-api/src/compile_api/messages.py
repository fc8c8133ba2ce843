"""Messages that a program gets once, at the line of its own that asks for them.

Must not know what they say.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from types import FrameType

import torch

from capture import CaptureWarning, Location, inform, remark

_TORCH = os.path.dirname(torch.__file__) + os.sep


@dataclass
class Messages:
    """Says each thing once, at the line of the program that asks."""

    said: set[str] = field(default_factory=set)

    def once(self, text: str) -> None:
        if text not in self.said:
            self.said.add(text)
            caller = sys._getframe(_frames_of_ours() - 1)
            code = caller.f_code
            inform(CaptureWarning(text), Location(code.co_filename, caller.f_lineno, code.co_qualname))

    def of_mark(self, text: str) -> None:
        """Says it of a mark, unless torch's own code (``torch.export``) put the mark on what it made."""
        above = sys._getframe(_frames_of_ours() - 1)
        if not str(above.f_globals.get("__name__", "")).startswith("torch."):
            self.once(text)

    def hear(self, text: str, where: Location | None) -> None:
        """Hears of a mark, in captured code or outside of it."""
        if where is None:
            self.of_mark(text)
        elif text not in self.said and not where.filename.startswith(_TORCH):
            self.said.add(text)
            inform(CaptureWarning(text), where)


def _frames_of_ours() -> int:
    """The number of frames up the stack to the program that called us."""
    frame, count = sys._getframe(1), 1
    while frame.f_back is not None and _passes_on(frame):
        frame, count = frame.f_back, count + 1
    return count


def _passes_on(frame: FrameType) -> bool:
    """True if the frame is ours, or of code that changes settings for a while on behalf of the program."""
    home = os.path.dirname(__file__) + os.sep
    return frame.f_code.co_filename.startswith(home) or frame.f_globals.get("__name__") in _ON_BEHALF


_ON_BEHALF = ("contextlib", "unittest.mock", "torch.utils._config_module", remark.__module__)
