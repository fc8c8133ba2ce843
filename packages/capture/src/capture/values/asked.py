"""Questions that evaluation put to functions that remember their answers, once for all calls of a version.

No guard asks them again in this process.  Another one that takes the version up asks each of them as evaluation would
have, so that what the function does, a notice perhaps, is done there as well; with another answer it evaluates.
Must not know which functions those are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Asked:
    """One question, and its answer."""

    function: Callable[..., object]
    args: tuple[object, ...]
    kwargs: tuple[tuple[str, object], ...]
    answer: object

    def is_answered_alike(self) -> bool:
        """Asks again, in this process."""
        answer = self.function(*self.args, **dict(self.kwargs))
        return answer is self.answer or (type(answer) is type(self.answer) and bool(answer == self.answer))
