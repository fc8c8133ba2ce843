"""Arithmetic on numbers that vary from call to call: what a compiled function branches on, returns and gives operators
is Python's to the bit, of its type and with its sign of zero.

RANDOM_PROGRAMS says how many are generated.
"""

import math
import os

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
        st.builds("{}({})".format, st.sampled_from(["math.sqrt", "math.exp", "math.atan"]), parts),
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
        compiled = compile_api.compile(names["f"], backend=backend)
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
