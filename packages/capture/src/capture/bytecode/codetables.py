"""The two compressed tables of a code object: source positions and exception handlers, to bytes and back.

This module knows byte formats.  Offsets and lengths are in code units (two bytes); it knows nothing of instructions.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

# (line, end line, column, end column), as in `code.co_positions()`.
Positions = tuple[int | None, int | None, int | None, int | None]
NO_POSITIONS: Positions = (None, None, None, None)


class ExceptionEntry(NamedTuple):
    """An exception raised in units [begin, end) cuts the stack to `depth` and goes to unit `target`."""

    begin: int
    end: int
    target: int
    depth: int
    lasti: bool


# -------------------------------------------------------------------------------------------------- exception handlers
# Numbers are big-endian groups of six bits; bit 64 says that more follow, bit 128 marks the first byte of a row.


def read_exception_table(table: bytes) -> Iterator[ExceptionEntry]:
    """The entries of ``co_exceptiontable``, in the order of the code that they cover."""
    position = 0

    def number() -> int:
        nonlocal position
        byte = table[position]
        value = byte & 63
        while byte & 64:
            position += 1
            byte = table[position]
            value = value << 6 | byte & 63
        position += 1
        return value

    while position < len(table):
        begin, length, target, depth_and_lasti = number(), number(), number(), number()
        yield ExceptionEntry(begin, begin + length, target, depth_and_lasti >> 1, bool(depth_and_lasti & 1))


def write_exception_table(entries: Iterable[ExceptionEntry]) -> bytes:
    """The bytes of an exception table; the inverse of `read_exception_table`."""
    out = bytearray()
    for begin, end, target, depth, lasti in entries:
        row = len(out)
        for value in (begin, end - begin, target, depth << 1 | lasti):
            _append_groups(out, value)
        out[row] |= 128
    return bytes(out)


def _append_groups(out: bytearray, value: int) -> None:
    """Appends a number as the exception table has it: its highest six bits first."""
    groups = [value & 63]
    while value := value >> 6:
        groups.append(value & 63 | 64)
    out.extend(reversed(groups))


# ---------------------------------------------------------------------------------------------------- source positions
# A row covers one to eight units.  Its first byte is 128 | form << 3 | units - 1; what follows depends on the form:
# 0-9 same line, a column below 80 and a short span; 10-12 zero to two lines on, two byte-sized columns;
# 13 a line without columns; 14 everything at full length; 15 nothing.
_LINE_ONLY, _LONG, _NOTHING = 13, 14, 15


def write_line_table(positions: Iterable[tuple[Positions, int]], first_line: int) -> bytes:
    """`positions` gives, in order, source positions and the number of units they hold for."""
    out = bytearray()
    previous = first_line
    for where, units in positions:
        line = where[0]
        form, tail = _position_row(where, previous)
        if line is not None:
            previous = line
        while units > 0:
            out.append(128 | form << 3 | min(units, 8) - 1)
            out += tail
            units -= 8
            if units > 0:  # more rows for the same place: the line has been reached
                form, tail = _position_row(where, previous)
    return bytes(out)


def _position_row(where: Positions, previous: int) -> tuple[int, bytes]:
    """The form of the shortest row that can tell these positions, and the bytes behind its first one."""
    line, end_line, column, end_column = where
    if line is None:
        return _NOTHING, b""
    delta = line - previous
    if end_line is None:
        end_line = line
    if column is None and end_column is None and end_line == line:
        return _LINE_ONLY, _signed(delta)
    if end_line == line and column is not None and end_column is not None:
        if delta == 0 and column < 80 and 0 <= end_column - column < 16:
            return column >> 3, bytes(((column & 7) << 4 | end_column - column,))
        if 0 <= delta <= 2 and column < 128 and end_column < 128:
            return 10 + delta, bytes((column, end_column))
    columns = (0 if value is None else value + 1 for value in (column, end_column))
    return _LONG, _signed(delta) + _unsigned(end_line - line) + b"".join(map(_unsigned, columns))


def _unsigned(value: int) -> bytes:
    """Little-endian groups of six bits; bit 64 says that more follow."""
    out = bytearray()
    while value > 63:
        out.append(value & 63 | 64)
        value >>= 6
    out.append(value)
    return bytes(out)


def _signed(value: int) -> bytes:
    """A number with its sign in the lowest bit, as `_unsigned` writes it."""
    return _unsigned(-value << 1 | 1 if value < 0 else value << 1)
