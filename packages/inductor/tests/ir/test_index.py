"""Index expressions: simplification never changes a value, and removes what the ranges say is constant."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inductor.codegen.cpp_dialect import INDEX_STYLE
from inductor.codegen.expressions import index_text
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


# -- any signs --------------------------------------------------------------------------------------------------------

N, M = size_symbol("n"), size_symbol("m", 1)
K, L = size_symbol("k", -(1 << 62)), size_symbol("l", -8)
"""Integers of any sign."""


class Truncated(int):
    """An integer as C++ divides it."""

    def __truediv__(self, other):
        return Truncated(abs(self) // abs(other) * (1 if (self < 0) == (other < 0) else -1))

    def __mod__(self, other):
        return Truncated(int.__sub__(self, (self / other) * other))

    def __add__(self, other):
        return Truncated(int(self) + int(other))

    def __sub__(self, other):
        return Truncated(int(self) - int(other))

    def __mul__(self, other):
        return Truncated(int(self) * int(other))

    def __neg__(self):
        return Truncated(-int(self))

    __radd__ = __rmul__ = None


def printed(index, values):
    """The number that the index's text is in C++."""
    style = str(index_text(index, INDEX_STYLE)).replace("<i64>", "")
    text = "".join(f" T({part}) " if part.isdigit() else part for part in _words(style))
    names = {symbol.name: Truncated(value) for symbol, value in values.items()}
    rounded_down = {
        "floor_divide": lambda a, b: Truncated(int(a) // int(b)),
        "modulo": lambda a, b: Truncated(int(a) - int(a) // int(b) * int(b)),
    }
    return eval(text, {"T": Truncated, **rounded_down, **names})


def _words(text):
    word = ""
    for letter in text:
        if letter.isalnum() or letter == "_":
            word += letter
        else:
            yield from (word, letter) if word else (letter,)
            word = ""
    yield word


def drawn(draw):
    """Symbols with their values, and the operands and results of operations on them, each with the number it is."""
    values = {N: draw.randint(2, 9), M: draw.randint(1, 6), K: draw.randint(-9, 9), L: draw.randint(-8, 4)}
    n, m, k, j = (Index.of(symbol) for symbol in (N, M, K, L))
    sizes = [Index.of(draw.randint(1, 12)), n, n * draw.randint(1, 3), n * m]
    loops = [loop_variable(f"i{number}", draw.choice(sizes)) for number in range(3)]
    values.update({loop: draw.randrange(loop.size.evaluate(values)) for loop in loops})
    numbers = [-6, -4, -3, -2, -1, 1, 2, 3, 4, 6, 8, 12]
    of_sizes = [Index.of(draw.choice(numbers[5:])), n, n * 2, n * m, n + 1, m * 3]
    of_any_sign = [*(Index.of(draw.choice(numbers)) for _ in range(4)), k, j, k * 2, n * -2, -k, n - m, j * n]
    known = [(Index.of(symbol), value) for symbol, value in values.items()] + [(Index.of(c), c) for c in numbers[3:9]]
    for _ in range(draw.randint(2, 8)):
        (one, at_one), (other, at_other) = draw.choice(known), draw.choice(known)
        op = draw.choice("+-**////%%%%")
        if op in "/%":  # positions are divided by sizes
            positions = any(symbol.size is not None for symbol in one.symbols)
            other = draw.choice(of_sizes if positions else of_any_sign)
            if not (at_other := other.evaluate(values)):
                continue
        result = {"+": lambda: (one + other, at_one + at_other), "-": lambda: (one - other, at_one - at_other),
                  "*": lambda: (one * other, at_one * at_other), "/": lambda: (one // other, at_one // at_other),
                  "%": lambda: (one % other, at_one % at_other)}[op]()  # fmt: skip
        yield f"({one}) {op} ({other})", other, result, values, known
        known += [result, result]


@pytest.mark.parametrize("seed", range(4))
def test_no_rule_changes_a_number_whatever_the_signs_are(seed):
    draw = random.Random(seed)
    for _ in range(300):
        for text, divisor, (index, number), values, known in drawn(draw):
            where = f"{text} = {index} at { {str(key): value for key, value in values.items()} }"
            assert index.evaluate(values) == number, where
            assert printed(index, values) == number, where
            low, high = index.bounds
            assert low is None or low <= number, f"from {low}: {where}"
            assert high is None or number <= high, f"to {high}: {where}"
            other, at_other = draw.choice(known)
            assert not index.is_below(other) or number < at_other, f"below {other}: {where}"
            exact = index.divisible_by(divisor)
            assert exact is None or exact.evaluate(values) * divisor.evaluate(values) == number, f"{exact}: {where}"
            _moved(draw, index, number, values, where)


def _moved(draw, index, number, values, where):
    """A symbol moves by one: strides tell by how much the index does; and it is replaced by others."""
    loops = [symbol for symbol in values if symbol.size is not None]
    loop = draw.choice(loops)
    stride = index.stride_of(loop)
    if stride is not None and values[loop] + 1 < loop.size.evaluate(values):
        moved = index.evaluate({**values, loop: values[loop] + 1})
        assert moved - number == stride.evaluate(values), f"stride {stride}: {where}"
    size = loop.size.as_int()
    if size is not None and size % 2 == 0:
        outer, inner = loop_variable("outer", size // 2), loop_variable("inner", 2)
        at = {**values, outer: values[loop] // 2, inner: values[loop] % 2}
        assert index.subs({loop: Index.of(outer) * 2 + Index.of(inner)}).evaluate(at) == number, where
    for symbol in (K, L):
        assert index.subs({symbol: values[symbol]}).evaluate(values) == number, f"{symbol}: {where}"
