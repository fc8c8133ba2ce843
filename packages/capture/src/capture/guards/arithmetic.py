"""The functions of two numbers that conditions on sizes are made of, by the names that programs have for them.

The engine has each of them in C, where numbers of 64 bits do; its tests ask it for these answers.  So nothing else of
capture is imported here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

OF_TWO: Mapping[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "multiply": operator.mul,
    "divide": operator.floordiv,
    "remainder": operator.mod,
    "least": min,
    "greatest": max,
    "equal": operator.eq,
    "unequal": operator.ne,
    "less": operator.lt,
    "less or equal": operator.le,
    "and": lambda left, right: bool(left) and bool(right),
    "or": lambda left, right: bool(left) or bool(right),
}
