"""What an emitter writes runs on this interpreter."""

import traceback
from types import FunctionType

import pytest

from capture.bytecode.assembler import OffsetOf, assemble
from capture.bytecode.emitter import Emitter
from capture.bytecode.flow import MalformedBody
from capture.bytecode.instructions import Body, Instruction


def function(write, *parameters, closure=(), freevars=()):
    """A function whose body is what `write` emits."""
    emit = Emitter((1, 1, 0, 0))
    emit.prologue()
    write(emit)
    code = assemble(
        emit.body(),
        (lambda: None).__code__,
        co_argcount=len(parameters),
        co_varnames=parameters,
        co_freevars=freevars,
        co_consts=(None,),
        co_name="written",
    )
    return FunctionType(code, globals(), "written", None, closure)


def spread(*args, **kwargs):
    return args, kwargs


def test_calls():
    def write(emit):
        emit.load_callable(spread)
        emit.load_fast("a")
        emit.call(1)
        emit.load_global("spread")
        emit.to_callable()
        emit.load_fast("a")
        emit.load_const(2)
        emit.call_kw(2, ("k",))
        emit.load_callable(spread)
        emit.load_fast("a")
        emit.build_tuple(1)
        emit.load_const("k")
        emit.load_const(3)
        emit.build_map(1)
        emit.call_ex(mapping=True)
        emit.load_callable(spread)
        emit.load_const(())
        emit.call_ex()
        emit.build_tuple(4)
        emit.return_value()

    expected = ((1,), {}), ((1,), {"k": 2}), ((1,), {"k": 3}), ((), {})
    assert function(write, "a")(1) == expected


def test_stack_moves():
    def write(emit):
        for value in (1, 2, 3, 4):
            emit.load_const(value)
        emit.sink(3)  # 1 4 2 3
        emit.copy(2)  # 1 4 2 3 2
        emit.swap(5)  # 2 4 2 3 1
        emit.build_list(5)
        emit.unpack_sequence(5)  # the first on top
        emit.pop()
        emit.build_tuple(4)
        emit.return_value()

    assert function(write)() == (1, 3, 2, 4)


def test_containers_and_attributes():
    class Box:
        pass

    def write(emit):
        emit.load_fast("value")
        emit.load_fast("box")
        emit.store_attr("item")
        emit.load_const("x")
        emit.build_list(1)
        emit.load_fast("box")
        emit.load_attr("item")
        emit.list_extend()
        emit.copy()
        emit.load_const(1)
        emit.binary_subscr()
        emit.load_fast("value")
        emit.compare("in")
        emit.build_tuple(2)
        emit.return_value()

    assert function(write, "box", "value")(Box(), [5]) == (["x", 5], True)


@pytest.mark.parametrize(("value", "expected"), [([], "false"), ([1], "true"), (None, "none")])
def test_jumps(value, expected):
    def write(emit):
        none, false = emit.label(), emit.label()
        emit.load_fast("value")
        emit.jump_if_none(none)
        emit.load_fast("value")
        emit.jump_if_false(false)
        for label, result in ((None, "true"), (none, "none"), (false, "false")):
            if label:
                emit.place(label)
            emit.load_const(result)
            emit.return_value()

    assert function(write, "value")(value) == expected


def test_loops_and_conditional_jumps_back():
    def write(emit):
        again, done = emit.label(), emit.label()
        emit.load_const(0)
        emit.load_fast("items")
        emit.get_iter()
        emit.place(again)
        emit.for_iter(done)
        emit.swap(2)
        emit.swap(3)
        emit.binary_op("+")
        emit.swap(2)
        emit.load_fast("items")
        emit.jump_if_true(again)
        emit.pop()  # never: the list is not empty
        emit.place(done)
        emit.return_value()

    assert function(write, "items")([1, 2, 3]) == 6


def test_a_handler():
    def write(emit):
        caught = emit.label()
        with emit.handled_by(caught, depth=0):
            emit.load_const(1)
            emit.load_fast("divisor")
            emit.binary_op("/")
            emit.return_value()
        emit.place(caught)
        emit.emit("PUSH_EXC_INFO")
        emit.pop()
        emit.emit("POP_EXCEPT")
        emit.load_const("caught")
        emit.return_value()

    assert function(write, "divisor")(0) == "caught"
    assert function(write, "divisor")(2) == 0.5


def test_cells_and_functions():
    def inner():
        return shared  # noqa: F821

    def outer():
        shared = 0
        return (lambda: shared).__code__

    def write(emit):
        emit.instructions.insert(0, Instruction("MAKE_CELL", "shared"))
        emit.load_const("hello")
        emit.store_deref("shared")
        emit.build_closure(["shared"])
        emit.make_function(outer(), closure=True)
        emit.return_value()

    assert function(write)()() == "hello"


def test_lines_are_the_users():
    def user(a):
        b = a + 1
        return b / 0

    division = next(i for i in Body.from_code(user.__code__) if i.arg == "/")

    def write(emit):
        emit.at(division)
        emit.load_const(ValueError("at the division"))
        emit.raise_value()

    with pytest.raises(ValueError) as raised:
        function(write)()
    assert traceback.extract_tb(raised.value.__traceback__)[-1].lineno == division.line


def test_constants_are_told_apart_by_identity():
    values = [1, 1.0, True, -0.0, 0.0, [], []]

    def write(emit):
        for value in values:
            emit.load_const(value)
        emit.build_tuple(len(values))
        emit.return_value()

    for got, given in zip(function(write)(), values, strict=True):
        assert got is given


def test_an_offset_as_a_constant():
    target = Instruction("NOP")

    def write(emit):
        emit.load_const(OffsetOf(target))
        emit.place(target)
        emit.return_value()

    assert function(write)() == 2  # RESUME, LOAD_CONST


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda emit: [emit.pop(), emit.return_value()], "underflow"),
        (lambda emit: emit.load_const(1), "falls off the end"),
        (lambda emit: emit.jump(Instruction("NOP")), "not in the body"),
        (lambda emit: emit.emit("NO_SUCH_OPCODE"), "no opcode|unknown opcode"),
    ],
)
def test_malformed_bodies_are_refused(write, message):
    with pytest.raises(MalformedBody, match=message):
        function(write)
