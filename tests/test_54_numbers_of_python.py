"""Arithmetic on numbers that vary from call to call: what a compiled function branches on, returns and gives operators
is Python's to the bit, of its type and with its sign of zero.

RANDOM_PROGRAMS says how many are generated.
"""

import math
import os
import random
import sys

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import compile_api

COUNT = int(os.environ.get("RANDOM_PROGRAMS", "6"))
BACKENDS = ("eager", "aot_eager", "inductor")
CALLS = ((3, 2), (4, -7), (-5, 3), (2, 2**40 + 1))
PROGRAM = """
def f(x, n, m):
    size = x.shape[0]
    y = x + 1 if {0} {compared} {1} else x - 1
    return y, {use}, {0}, {2}
"""
USES = ("x * ({3})", "x.double() + ({3})", "torch.add(x, x, alpha={3})", "torch.full((2,), {3}, dtype=torch.float64)")
SMOOTH = ("sqrt", "exp", "atan", "sin", "cos", "log", "tanh", "erf", "expm1", "cbrt", "degrees", "fabs", "ceil")
LEAVES = st.sampled_from(
    ["n", "n", "n", "m", "size", "0.1", "0.3", "-0.0", "0.0", "3", "-2", "7", "2.5", "1e16", "1e-9", "True"]
)


def larger(parts):
    pair = st.tuples(parts, parts)
    return st.one_of(
        st.builds("({0[0]} {1} {0[1]})".format, pair, st.sampled_from("+-*/")),
        st.builds("({} {} {})".format, parts, st.sampled_from(["//", "%"]), st.sampled_from(["3", "0.3", "-2.5"])),
        st.builds("({} ** {})".format, parts, st.sampled_from(["2", "0.5", "-1"])),
        st.builds("{}({})".format, st.sampled_from(["-", "abs", "int", "float", "round", "math.floor"]), parts),
        st.builds("{}({})".format, st.sampled_from([f"math.{name}" for name in SMOOTH]), parts),
        st.builds("{1}({0[0]}, {0[1]})".format, pair, st.sampled_from(["min", "max"])),
        st.builds("sum([{0[0]}, {0[1]}, {0[1]}])".format, pair),
    )


EXPRESSIONS = st.recursive(LEAVES, larger, max_leaves=6)


def outcome(function, *args):
    """Its results as text, which tells types and zeros apart, or what kind of error it raises."""
    try:
        return repr(function(*args))
    except (ArithmeticError, ValueError, TypeError, RuntimeError) as error:
        return type(error).__mro__[-4:]  # of torch's own errors some are kinds of RuntimeError


def insist_on_pythons_answers(text):
    names = {"torch": torch, "math": math}
    exec(text, names)
    for backend in BACKENDS:
        compiled = compile_api.compile(names["f"], backend=backend, fullgraph=True)
        for n, m in CALLS:
            args = torch.ones(abs(n)), n, m
            assert outcome(compiled, *args) == outcome(names["f"], *args), f"{backend}, n = {n}, m = {m}: {text}"


@settings(max_examples=COUNT, deadline=None)
@given(st.lists(EXPRESSIONS, min_size=4, max_size=4), st.sampled_from(["<", "<=", "==", "!="]), st.sampled_from(USES))
def test_generated_arithmetic_is_pythons(parts, compared, use):
    insist_on_pythons_answers(PROGRAM.format(*parts, compared=compared, use=use.format(*parts)))


@pytest.mark.parametrize(
    "parts",
    [
        ("n * 0.1 + n * 0.2", "n * 0.3", "n * 0.1 * 3", "n + 1e16 - 1e16"),
        ("size + 0.1 - 0.1", "size", "-0.0 * n", "sum([n * .1] * 3)"),
        ("n * 0.0", "-0.0 * size", "-0.0 / n", "n * (1 / 0.3)"),
        ("n // size", "1", "n == size", "n * 0.5"),
        ("int(n * 0.7)", "round(size / 3)", "-(n * 0.1) ** 2", "math.sqrt(size) / 3"),
    ],
)
def test_floats_are_neither_put_into_order_nor_taken_for_others(parts):
    insist_on_pythons_answers(PROGRAM.format(*parts, compared="==", use=USES[0].format(*parts)))


def test_a_float_that_varies_costs_no_further_graph():
    graphs = []

    def keep(graph, examples):
        graphs.append(graph)
        return graph.forward

    compiled = compile_api.compile(
        lambda x, n: torch.add(x * (n * 0.5), x[: int(n * 0.7)].sum(), alpha=n / 3), backend=keep
    )
    for n in (3, 4, 5, 9):
        compiled(torch.ones(n), n)
    assert len(graphs) == 2


OF_ITERABLES = ("dist", "fsum", "prod", "sumprod")
NAMES = [name for name, value in vars(math).items() if callable(value) and name not in OF_ITERABLES and name[0] != "_"]
EVERYTHING = [f"math.{name}({given})" for name in NAMES for given in ("a", "a, b")]
EVERYTHING += [f"a {sign} {given}" for sign in ("//", "%", "**", "/", "<", "==") for given in ("b", "2")]
EVERYTHING += [f"{name}({given})" for name in ("min", "max", "divmod", "pow") for given in ("a, b", "a, 3")]
EVERYTHING += [f"a.{name}" for name in ("is_integer()", "as_integer_ratio()", "hex()", "conjugate()", "bit_length()")]
EVERYTHING += ["a.real", "abs(a)", "-a", "~a", "int(a)", "float(a)", "bool(a)", "2 ** a", "(a / 7).is_integer()"]
EVERYTHING += ["round(a)", "round(a, 1)", "round(a, -1)", "round(a, None)", "round(a / b, 1)", "int(a * 1.5)"]
EVERYTHING += ["math.isclose(a, b, abs_tol=1)", "math.log(a, 2)", "math.cos(a * math.pi / 12)", "math.hypot(a, b, 2)"]
EVERYTHING += ["math.fsum([a, b])", "math.prod([a, b])", "sum([a, b])", "str(a)", "f'{a:.2f}'", "complex(a, 1)"]
INTS = (3, 2, 7, -4, 12, 1, 0, 30)
FLOATS = (0.75, 2.5, -1.5, 3.0, 0.1, 0.0, -0.0, math.inf, math.nan, -7.25, 1e300)
PAIRS = {
    "ints": [*zip(INTS, INTS[3:] + INTS[:3], strict=True)],
    "floats": [*zip(FLOATS, FLOATS[4:] + FLOATS[:4], strict=True)],
    "both": [*zip(INTS, FLOATS, strict=False)],
}
EVERY_FUNCTION = """
def f(x, a, b, seen):
    seen.append(len(seen))
    v = {}
    seen.append(len(seen))
    return x * (v if isinstance(v, (int, float)) and abs(v) < 2**60 else 1), v
"""


def all_that_shows(function, *args):
    seen = []
    try:
        return repr(function(torch.ones(1, dtype=torch.float64), *args, seen)), seen
    except Exception as error:  # noqa: BLE001 - whatever Python raises
        return type(error), error.args, seen


@pytest.mark.filterwarnings("ignore:.*versions exist already:UserWarning")  # texts are constants of a graph
@pytest.mark.parametrize("pairs", PAIRS)
def test_every_function_of_numbers_is_pythons(pairs):
    drawn = random.Random(os.environ.get("NUMBER_SEED")).sample(EVERYTHING, 30)
    for expression in EVERYTHING if "NUMBER_SEED" in os.environ else drawn:
        names = {"math": math}
        exec(EVERY_FUNCTION.format(expression), names)
        expected = [all_that_shows(names["f"], *pair) for pair in PAIRS[pairs]]
        compile_api.reset()
        compiled = compile_api.compile(names["f"], backend="eager")
        for pair, wanted in zip(PAIRS[pairs] * 2, expected * 2, strict=True):
            assert all_that_shows(compiled, *pair) == wanted, f"{expression}, a, b = {pair}"


def schedule(x, epoch, rate):
    factor = 0.5 * (1 + math.cos(math.pi * epoch / 50)) * math.exp(-rate) + math.pow(0.9, epoch)
    return x * factor, x.float() * round(epoch / 7, 1), factor


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_schedule_is_pythons_to_the_bit(backend):
    compiled, x = (
        compile_api.compile(schedule, backend=backend, fullgraph=True),
        torch.linspace(-1, 1, 5, dtype=torch.float64),
    )
    for epoch in range(3, 13):
        assert repr(compiled(x, epoch, epoch / 10)) == repr(schedule(x, epoch, epoch / 10))


def test_a_schedule_costs_one_graph_more(recording):
    compiled = compile_api.compile(schedule, backend=recording)
    for epoch in range(3, 13):
        compiled(torch.ones(2), epoch, epoch / 10)
    assert len(recording.graphs) == 2


SUMS = {
    "constants": lambda x, n, rate: x * sum([0.1] * 10),
    "a start": lambda x, n, rate: x * sum([0.1] * 9, 0.1),
    "whole numbers before": lambda x, n, rate: x * sum([1, 2, *[0.1] * 7]),
    "sizes": lambda x, n, rate: x * sum(n * share for share in (0.1, 0.2, 0.3, 0.7)),
    "passed in": lambda x, n, rate: x * sum([rate, rate, rate, n, 0.1]),
    "tensors behind": lambda x, n, rate: sum([0.1, 0.1, 0.1, x, 0.1, 0.1]),
    "read from tensors": lambda x, n, rate: sum([*x.tolist(), 0.1, 0.1]),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_pythons(name):
    """From 3.12 on Python carries along what is rounded away."""
    whole = name != "read from tensors" or sys.version_info < (3, 12)
    compiled, x = (
        compile_api.compile(SUMS[name], backend="eager", fullgraph=whole),
        torch.tensor([0.1, 0.7, 1e16], dtype=torch.float64),
    )
    for n, rate in ((3, 0.1), (4, 0.3), (5, 0.7)):
        ours, expected = (torch.as_tensor(f(x, n, rate)).tolist() for f in (compiled, SUMS[name]))
        assert str(ours) == str(expected)


NUMBERS_FOR_TENSORS = ((2, 3), (True, True), (2, 3.5), (2, torch.tensor(3.0)), (2.0, torch.tensor([1.0, 2.0])))


@pytest.mark.parametrize("function", [torch.add, torch.sub, torch.mul, torch.div, torch.floor_divide])
@pytest.mark.parametrize("operands", NUMBERS_FOR_TENSORS, ids=str)
def test_numbers_stand_where_tensors_are_expected(function, operands):
    """Where they are given with ``out=``, which gets a copy of what is computed from them."""
    if function in (torch.sub, torch.floor_divide) and operands[1] is True:
        pytest.skip("eager refuses booleans")

    def program(out):
        return function(*operands, out=out) * 2

    shape = torch.as_tensor(operands[1]).shape
    expected = program(torch.zeros(shape))
    found = compile_api.compile(program, backend="inductor", options={"strict": True}, fullgraph=True)(
        torch.zeros(shape)
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
