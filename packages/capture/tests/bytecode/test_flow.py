"""Liveness, depths, reachability and loops of small functions."""

import inspect
import tokenize

import pytest

from capture.bytecode.flow import Flow
from capture.bytecode.instructions import Body


def flow_of(function):
    return Flow(Body.from_code(function.__code__))


def live_before(function, op, nth=0):
    flow = flow_of(function)
    i = [i for i, instruction in enumerate(flow.instructions) if instruction.op == op][nth]
    return set(flow.live().before(i))


def test_a_variable_lives_from_its_write_to_its_last_read():
    def program(a, b):
        c = a + b
        d = c * b
        return -d

    assert live_before(program, "RESUME") == {"a", "b"}
    assert live_before(program, "STORE_FAST", 0) == {"b"}
    assert live_before(program, "STORE_FAST", 1) == set()


def test_branches_join():
    def program(flag, a, b):
        if flag:
            return a
        return b

    assert live_before(program, "RESUME") == {"flag", "a", "b"}
    assert live_before(program, "RETURN_VALUE", 0) == set()


def test_a_loop_keeps_alive_what_its_next_round_reads():
    def program(items, scale):
        total = 0
        for item in items:
            total += item * scale
        return total

    assert live_before(program, "STORE_FAST", 2) == {"scale"}  # total += ... is about to be written
    assert live_before(program, "FOR_ITER") == {"scale", "total"}


def test_a_handler_keeps_alive_what_it_reads():
    def program(a, b):
        try:
            c = a()
            a = None
        except ValueError:
            return b, a
        return c

    assert live_before(program, "STORE_FAST", 0) == {"b", "a"}


def test_deleting_needs_the_variable():
    def program(a):
        del a

    assert live_before(program, "RESUME") == {"a"}


def test_cells_live_while_they_are_used():
    def program(a, b):
        def inner():
            return a

        b(inner)

    assert live_before(program, "POP_TOP") == set()
    assert live_before(program, "LOAD_CLOSURE") == {"a", "b"}


def test_depths_and_size():
    def program(a, b):
        return [a, (a, b)]

    flow = flow_of(program)
    depths = dict(zip((i.op for i in flow.instructions), flow.depths, strict=True))
    assert (depths["BUILD_TUPLE"], depths["BUILD_LIST"], depths["RETURN_VALUE"]) == (3, 2, 1)
    assert flow.stack_size() == 3


def test_reachable():
    def program(a):
        if a:
            return 1
        return 2

    flow = flow_of(program)
    assert all(flow.reachable())
    last = len(flow.instructions) - 1
    assert sum(flow.reachable(last)) == 1


def test_loops_are_what_can_run_again():
    def program(items):
        before = 1
        for a in items:
            while a:
                a -= before
        return after(a)  # noqa: F821

    flow = flow_of(program)
    again = [i for first, last in flow.loops() for i in flow.instructions[first : last + 1]]
    lines = {i.line - program.__code__.co_firstlineno for i in again if i.line}
    assert lines == {2, 3, 4}


def test_code_between_a_loop_and_its_handlers_is_not_in_the_loop():
    def program(items):
        for a in items:
            try:
                a()
            except ValueError:
                a = None
        return after(a)  # noqa: F821

    flow = flow_of(program)
    again = [i for first, last in flow.loops() for i in flow.instructions[first : last + 1]]
    assert any(i.op == "PUSH_EXC_INFO" for i in again)
    assert not any(i.arg == "after" for i in again)


def is_live(flow, name, start):
    """The definition: from `start` some path reads the variable before it is written."""
    seen, todo = set(), [start]
    while todo:
        i = todo.pop()
        if i in seen:
            continue
        seen.add(i)
        instruction = flow.instructions[i]
        if instruction.arg == name and instruction.op in ("LOAD_FAST", "LOAD_FAST_CHECK", "DELETE_FAST"):
            return True
        handler = flow.handler(i)
        if handler is not None:
            todo.append(handler)
        if (instruction.op, instruction.arg) != ("STORE_FAST", name):
            todo += flow.successors[i]
    return False


@pytest.mark.parametrize("function", [inspect.getmodule, inspect.cleandoc, tokenize.open, inspect.unwrap])
def test_liveness_is_exact(function):
    flow = flow_of(function)
    live = flow.live()
    names = [name for name in function.__code__.co_varnames if name not in function.__code__.co_cellvars]
    hidden = {i.arg for i in flow.instructions if i.op == "LOAD_FAST_AND_CLEAR"}
    for i in range(len(flow.instructions)):
        expected = {name for name in names if name not in hidden and is_live(flow, name, i)}
        assert live.before(i).intersection(names) - hidden == expected
