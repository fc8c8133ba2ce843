"""Clocks: a program measures what it computes."""

from __future__ import annotations

import time

from capture.evaluator.builtin_rules.registry import rule
from capture.evaluator.world import World
from capture.values.base import Value
from capture.values.clock import ClockReading


def _read(clock: object) -> None:
    """The rule for one clock: a reading is put off, and where it belongs is known by the operations before it."""

    @rule(clock)
    def read(ctx: World) -> Value:
        reading = ClockReading(clock, ctx.graph.operations)  # type: ignore[arg-type]
        ctx.note_origin(reading)
        ctx.effects.clocks.append(reading)
        return reading


for _clock in (time.time, time.perf_counter, time.monotonic, time.process_time):
    _read(_clock)
