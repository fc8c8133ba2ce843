"""Operators and comparisons, on tensors, on numbers and on both."""

import operator

import pytest
import torch

BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow]
IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.itruediv]
COMPARE = [operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge]


@pytest.mark.parametrize("op", BINARY + COMPARE + IN_PLACE, ids=lambda op: op.__name__)
def test_binary_operators_on_tensors(check, x, op):
    check(lambda a, b: op(a, b), x + 1, x + 2)
    check(lambda a: op(a, 2), x + 1)


@pytest.mark.parametrize("op", BINARY + COMPARE, ids=lambda op: op.__name__)
def test_operators_on_numbers_are_folded(check, x, op):
    log = check(lambda a, n: (a + 1, op(n, 3)), x, 7)
    assert log.records()[-1].operators == ("add",)


def test_symbols(check, x):
    check(lambda a: (-a, +a, ~(a > 2), a @ a.T, (a > 1) & (a < 4), (a > 1) | (a < 0), (a > 1) ^ (a < 4)), x)


def test_in_place_operators_change_the_argument(check, x):
    def double(a):
        b = a
        a += 1
        a *= 2
        return b

    check(double, x)


def test_identity_and_membership(check, x):
    check(
        lambda a, n: (a is a, n is None, n is not None, 2 in [1, 2], "k" not in {"k": a}, 3 in range(4)),
        x,
        None,
        graphs=0,
    )


def test_formatting(check, x):
    check(lambda a, n: (a + 1, f"{n:>4}|{n!r}|{a.shape[0]}|{a.dtype}"), x, 3)


def test_division_by_zero_is_the_users_error(check, x):
    check(lambda a: a + 1 / 0, x, graphs=0)


def test_unsupported_operands_raise_what_python_raises(check):
    check(lambda: [1] - [2], graphs=0)
    check(lambda a: "s" + a, 1, graphs=0)


def test_indexing_of_tensors(check, x):
    check(lambda a: (a[0], a[..., 1], a[:, None, 1:], a[a > 2].sum() if False else a[1, 2], a[[0, 1]]), x)


def test_assignment_into_tensors(check, x):
    def fill(a):
        a[0] = 5
        a[:, 1] += 2
        return a.sum()

    check(fill, x)


def test_dtype_promotion(check):
    check(lambda a, b: (a + b, a / 2, a * 1.5), torch.arange(3), torch.ones(3, dtype=torch.float16))
