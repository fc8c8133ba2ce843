"""What decoding makes of operands, calls, variables and handlers; the text form."""

import sys

import pytest

from capture.bytecode.instructions import Body, Instruction


def decoded(function):
    return [(i.op, i.arg) for i in Body.from_code(function.__code__) if i.op not in ("RESUME", "NOP", "TO_BOOL")]


def test_operands_are_what_they_mean():
    def program(a, b):
        a += b.attribute
        a[0:b] = a < b
        x, *y = a
        return x is not y in b

    ops = decoded(program)
    for expected in [
        ("LOAD_FAST", "a"), ("LOAD_ATTR", "attribute"), ("BINARY_OP", "+="), ("STORE_FAST", "a"), ("COMPARE_OP", "<"),
        ("LOAD_CONST", 0), ("BUILD_SLICE", 2), ("STORE_SUBSCR", None), ("UNPACK_EX", (1, 0)), ("IS_OP", "is not"),
        ("CONTAINS_OP", "in"), ("RETURN_VALUE", None),
    ]:  # fmt: skip
        assert expected in ops


def test_calls():
    def program(f, a):
        f(a)
        f.method(a, k=a)
        return f(*a, **a)

    ops = decoded(program)
    calls = [("CALL", 1), ("LOAD_METHOD", "method"), ("CALL_KW", (2, ("k",))), ("CALL_FUNCTION_EX", 1)]
    assert [op for op in ops if op in calls] == calls
    assert sum(op == "PUSH_NULL" for op, _ in ops) == 2


def test_variables_have_names_whatever_they_are():
    free = 1

    def program(cell, local):
        def inner():
            return cell

        return inner, local, free

    ops = decoded(program)
    assert {("MAKE_CELL", "cell"), ("LOAD_CLOSURE", "cell"), ("LOAD_FAST", "local"), ("LOAD_DEREF", "free")} <= set(ops)
    assert ("MAKE_FUNCTION", 8) in ops


@pytest.mark.skipif(sys.version_info < (3, 12), reason="comprehensions are functions of their own before 3.12")
def test_a_variable_hidden_by_a_comprehension_is_primed():
    x = 1

    def program(items):
        return [x + 1 for x in items], x

    names = [arg for op, arg in decoded(program) if op in ("LOAD_FAST", "LOAD_DEREF", "STORE_FAST") and arg != "items"]
    assert set(names) == {"x'", "x"}


def test_jumps_go_to_instructions():
    def program(items):
        for item in items:
            if item:
                break

    body = Body.from_code(program.__code__)
    loop = next(i for i in body if i.op == "FOR_ITER")
    assert loop.arg in body.instructions
    assert any(i.op == "JUMP" and i.arg is loop for i in body)


def test_handlers_belong_to_instructions():
    def program(f):
        before = f
        try:
            f(before)
        except ValueError:
            return

    call = next(i for i in Body.from_code(program.__code__) if i.op == "CALL")
    first = next(i for i in Body.from_code(program.__code__) if i.op == "LOAD_FAST")
    assert first.handler is None
    assert (call.handler.target.op, call.handler.depth, call.handler.lasti) == ("PUSH_EXC_INFO", 0, False)


def test_instrumented_code_is_read_as_it_was_compiled():
    def program(a):
        for item in a:
            item(a)

    before = [(i.op, i.line) for i in Body.from_code(program.__code__)]
    sys.settrace(lambda frame, event, arg: lambda *_: None)
    try:
        for _ in range(20):
            program([id])
        during = [(i.op, i.line) for i in Body.from_code(program.__code__)]
    finally:
        sys.settrace(None)
    assert during == before


def test_a_table_of_lines_may_end_before_the_code():
    def program(a):
        return a + 1

    short = Body.from_code(program.__code__.replace(co_linetable=b""))
    assert [i.op for i in short] == [i.op for i in Body.from_code(program.__code__)]
    assert not any(i.line for i in short)


def test_indices_are_the_same_each_time():
    code = test_calls.__code__
    assert [i.index for i in Body.from_code(code)] == list(range(len(Body.from_code(code))))
    assert Instruction("NOP").index == -1


def test_text():
    def program(a):
        while a:
            a -= 1
        return a

    lines = [line.split() for line in str(Body.from_code(program.__code__)).splitlines()]
    assert ["BINARY_OP", "-="] in lines
    assert any(line[-2:-1] == ["->"] and line[-1].startswith("L") for line in lines)
    assert lines[0] == [str(program.__code__.co_firstlineno), "RESUME", "0"]
