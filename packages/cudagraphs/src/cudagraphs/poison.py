"""Fills all pool memory that nobody holds, so that a read of it shows: every float in it is NaN.

An aid for tests and for the search for a mistake.  Must not know why memory is held or not; the ledger says so.
"""

from __future__ import annotations

from collections.abc import Iterable

from .driver import Driver
from .storage import Block

FILLING = 0xFF


def poison(driver: Driver, held: Iterable[Block]) -> None:
    """Fills everything in the pool but the blocks ``held``."""
    taken = sorted((block.address, block.nbytes) for block in held)
    for segment in driver.segments():
        start, end = segment.address, segment.address + segment.nbytes
        inside = [block for block in taken if start <= block[0] < end]
        for address, nbytes in [*inside, (end, 0)]:
            if address > start:
                driver.fill(Block(start, address - start), FILLING)
            start = address + nbytes
