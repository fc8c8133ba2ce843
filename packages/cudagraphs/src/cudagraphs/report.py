"""The report of what happened, as data.  Logs and reports render this; nothing decides by it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields

from .errors import Refused


@dataclass(frozen=True, slots=True)
class Report:
    """Counts since the manager was made, and every refusal once."""

    warmups: int = 0
    recorded: int = 0
    replayed: int = 0
    plain: int = 0
    copied_out: int = 0
    copied_out_bytes: int = 0
    released: int = 0
    steps: int = 0
    pool_bytes: int = 0
    refusals: tuple[Refused, ...] = ()

    def __add__(self, other: Report) -> Report:
        counts = {
            field.name: getattr(self, field.name) + getattr(other, field.name)
            for field in fields(self)
            if field.name not in ("steps", "refusals")
        }
        refusals = tuple(dict.fromkeys([*self.refusals, *other.refusals]))
        return Report(**counts, steps=max(self.steps, other.steps), refusals=refusals)

    def __str__(self) -> str:
        lines = [
            f"{self.replayed} replays of {self.recorded} recordings",
            f"{self.warmups} warm-up and {self.plain} plain calls",
            f"{self.copied_out} outputs copied out ({self.copied_out_bytes} bytes), {self.released} released",
            f"{self.steps} steps, {self.pool_bytes} bytes of pool",
        ]
        return "\n".join([*lines, *(f"refused: {refusal}" for refusal in self.refusals)])


class Journal:
    """The counts and refusals of which a report is made."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._refusals: dict[Refused, None] = {}

    def refuse(self, refused: Refused) -> bool:
        """Keeps a refusal; the same one is kept once.  True if it is new."""
        new = refused not in self._refusals
        self._refusals[refused] = None
        return new

    def report(self, **present: int) -> Report:
        """The counts so far and the ``present`` state."""
        return Report(**self.counts, **present, refusals=tuple(self._refusals))
