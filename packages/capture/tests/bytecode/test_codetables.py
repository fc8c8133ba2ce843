"""The compressed tables say what was put into them."""

from opcode import opmap

from hypothesis import given
from hypothesis import strategies as st

from capture.bytecode.codetables import ExceptionEntry, read_exception_table, write_exception_table, write_line_table

small = st.integers(0, 300) | st.integers(0, 2**20)


@st.composite
def source_positions(draw):
    if draw(st.booleans()) and draw(st.booleans()):
        return (None, None, None, None)
    line = draw(st.integers(1, 400))
    end_line = line + draw(st.integers(0, 3))
    if draw(st.booleans()):
        return (line, end_line, None, None)
    column = draw(st.integers(0, 200))
    return (line, end_line, column, draw(st.integers(column if end_line == line else 0, column + 150)))


@given(st.lists(st.tuples(source_positions(), st.integers(1, 20)), min_size=1, max_size=30), st.integers(1, 300))
def test_positions(runs, first_line):
    def function():
        pass

    units = sum(count for _, count in runs)
    nop = bytes((opmap["NOP"], 0))
    code = function.__code__.replace(
        co_code=nop * units, co_linetable=write_line_table(runs, first_line), co_firstlineno=first_line
    )
    assert list(code.co_positions()) == [where for where, count in runs for _ in range(count)]


@given(st.lists(st.tuples(small, small, small, st.integers(0, 40), st.booleans()), max_size=20))
def test_exception_entries(rows):
    entries = [ExceptionEntry(begin, begin + length, *rest) for begin, length, *rest in rows]
    assert list(read_exception_table(write_exception_table(entries))) == entries
