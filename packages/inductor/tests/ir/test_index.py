"""Index expressions: simplification never changes a value, and removes what the ranges say is constant."""

from hypothesis import given
from hypothesis import strategies as st

from inductor.ir.index import Index, loop_variable, size_symbol

X = loop_variable("x", 6)
Y = loop_variable("y", 4)
S = size_symbol("s")
Z = loop_variable("z", Index.of(S))
x, y, s, z = Index.of(X), Index.of(Y), Index.of(S), Index.of(Z)


def test_equal_expressions_are_equal_objects():
    assert (x + 1) * 4 + y == 4 * x + y + 4
    assert hash((x + 1) * 4) == hash(4 * x + 4)


def test_text_reads_like_arithmetic():
    assert str(4 * x - y + 3) == "4 * x - y + 3"
    assert str((x + y) // 3) == "((x + y) // 3)"


def test_ranges_remove_divisions():
    assert (4 * x + y) // 4 == x
    assert (4 * x + y) % 4 == y
    assert (8 * x + 2 * y) // 8 == x


def test_symbolic_sizes_divide_too():
    assert (x * s + z) // s == x
    assert (x * s + z) % s == z


def test_nested_divisions_merge():
    w = Index.of(loop_variable("w", 100))
    assert (w // 3) // 4 == w // 12
    assert (w % 12) // 4 == (w // 4) % 3
    assert (w % 12) % 4 == w % 4


def test_strides():
    index = 4 * x + y * s + (y // 3)
    assert index.stride_of(X) == 4
    assert index.stride_of(Y) is None
    assert (y * s).stride_of(Y) == s


def test_proofs_of_range():
    assert (4 * x + y).is_below(24)
    assert not (4 * x + y).is_below(23)
    assert (x * s + z).is_below(6 * s)


@st.composite
def expressions(draw):
    index = draw(st.sampled_from([x, y, Index.of(draw(st.integers(-5, 30)))]))
    for _ in range(draw(st.integers(0, 6))):
        operation = draw(st.sampled_from("+-*/%s"))
        other = draw(st.sampled_from([x, y, x + 4 * y, Index.of(3)]))
        number = draw(st.integers(1, 12))
        index = {"+": index + other, "-": index - other, "*": index * number, "/": index // number, "%": index % number,
                 "s": index.subs({X: y + 1}) if operation == "s" else index}[operation]  # fmt: skip
    return index


@given(expressions(), st.integers(1, 12), st.integers(0, 5), st.integers(0, 3))
def test_simplifying_keeps_the_value(index, number, at_x, at_y):
    at = {X: at_x, Y: at_y}
    assert (index // number).evaluate(at) == index.evaluate(at) // number
    assert (index % number).evaluate(at) == index.evaluate(at) % number
    low, high = index.bounds
    assert low is None or low <= index.evaluate(at)
    assert high is None or high >= index.evaluate(at)


@given(expressions(), st.integers(0, 4), st.integers(0, 3))
def test_substitution_is_evaluation_in_two_steps(index, at_x, at_y):
    assert index.subs({X: Index.of(at_x) + y}).evaluate({Y: at_y}) == index.evaluate({X: at_x + at_y, Y: at_y})
