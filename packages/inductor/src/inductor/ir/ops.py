"""The operators an expression may use: one table, read by lowerings, by printers and by any new target.

Each entry fixes what the operator means, so that every target means the same.  Operands have one common dtype (except
where noted) and arithmetic happens in it: half types are widened when loaded and narrowed when stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Result = Literal["same", "bool", "given"]


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of the table; ``result`` gives its dtype: that of the operands, bool, or the one that the node
    names."""

    name: str
    arity: int
    result: Result
    meaning: str


def _table(*rows: tuple[str, int, Result, str]) -> dict[str, Operator]:
    return {name: Operator(name, arity, result, meaning) for name, arity, result, meaning in rows}


ARITHMETIC = _table(
    ("add", 2, "same", "a + b; integers wrap, bool is or"),
    ("sub", 2, "same", "a - b"),
    ("mul", 2, "same", "a * b; bool is and"),
    ("div", 2, "same", "a / b of floats, as IEEE 754"),
    ("floordiv", 2, "same", "quotient rounded down; of floats as Python does it"),
    ("truncdiv", 2, "same", "quotient rounded towards zero"),
    ("mod", 2, "same", "remainder with the sign of b, as Python's %"),
    ("fmod", 2, "same", "remainder with the sign of a, as C's"),
    ("neg", 1, "same", "-a"),
    ("abs", 1, "same", "absolute value"),
    ("sign", 1, "same", "-1, 0 or 1; 0 for NaN"),
    ("maximum", 2, "same", "the larger; NaN if either is"),
    ("minimum", 2, "same", "the smaller; NaN if either is"),
    ("fmax", 2, "same", "the larger; the other where one is NaN"),
    ("fmin", 2, "same", "the smaller; the other where one is NaN"),
    ("fma", 3, "same", "a * b + c rounded once"),
    ("copysign", 2, "same", "magnitude of a, sign of b"),
    ("nextafter", 2, "same", "the next value after a towards b"),
)

COMPARISON = _table(
    ("eq", 2, "bool", "a == b"),
    ("ne", 2, "bool", "a != b, true for NaN"),
    ("lt", 2, "bool", "a < b"),
    ("le", 2, "bool", "a <= b"),
    ("gt", 2, "bool", "a > b"),
    ("ge", 2, "bool", "a >= b"),
    ("isnan", 1, "bool", "a is NaN"),
    ("isinf", 1, "bool", "a is infinite"),
    ("signbit", 1, "bool", "the sign bit is set"),
)

LOGICAL = _table(
    ("and", 2, "same", "bitwise on integers, logical on bool"),
    ("or", 2, "same", "bitwise on integers, logical on bool"),
    ("xor", 2, "same", "bitwise on integers, logical on bool"),
    ("not", 1, "same", "bitwise on integers, logical on bool"),
    ("shl", 2, "same", "a << b; 0 where b is negative or at least the width"),
    ("shr", 2, "same", "a >> b, arithmetic for signed; the sign where b is at least the width"),
    ("where", 3, "same", "first operand is bool: b where true, else c"),
)

ROUNDING = _table(
    ("floor", 1, "same", "rounded down"),
    ("ceil", 1, "same", "rounded up"),
    ("trunc", 1, "same", "rounded towards zero"),
    ("round", 1, "same", "rounded to nearest, halves to even"),
)

ELEMENTARY = _table(
    *((name, 1, "same", f"{name}(a)") for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos",
        "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "lgamma", "digamma",
        "sigmoid",
    )),
    ("reciprocal", 1, "same", "1 / a"),
    ("pow", 2, "same", "a to the power of b, as C's pow; integer powers of integers by squaring"),
    ("atan2", 2, "same", "angle of (b, a)"),
    ("hypot", 2, "same", "sqrt(a * a + b * b) without overflow"),
)  # fmt: skip

CONVERSION = _table(
    ("cast", 1, "given", "converted as torch converts: floats to integers towards zero, anything to bool by != 0"),
    ("bitcast", 1, "given", "the same bits read as another dtype of that width"),
    ("rounded", 1, "same", "rounded through the half type named by the node, and widened again"),
)

INDEXING = _table(
    ("wrapped", 2, "same", "position a on an axis of b elements, counted from the end where negative; a position"
                           " outside makes the call raise IndexError; until then some element is read in its place"),
    ("within", 2, "same", "the same for a position that may not be negative"),
)  # fmt: skip

RANDOM = _table(
    ("rand", 2, "given", "uniform in [0, 1) from counter-based Philox; operands: int64 seed, int64 offset"),
    ("randn", 2, "given", "standard normal from the same generator"),
    ("randint64", 4, "given", "uniform integer; operands: seed, offset, low, high"),
)

OPERATORS: dict[str, Operator] = {
    **ARITHMETIC, **COMPARISON, **LOGICAL, **ROUNDING, **ELEMENTARY, **CONVERSION, **INDEXING, **RANDOM,
}  # fmt: skip

REDUCTIONS: dict[str, str] = {
    "sum": "sum, accumulated in at least float32, or int64",
    "prod": "product, likewise",
    "max": "largest; NaN if any is",
    "min": "smallest; NaN if any is",
    "argmax": "position of the first largest (NaN counts as largest), int64",
    "argmin": "position of the first smallest (NaN counts as smallest), int64",
    "any": "true if any is",
    "all": "true if all are",
    "xor_sum": "bitwise xor of all",
    "welford": "mean, sum of squared deviations and count, in one stable pass: results .mean, .m2, .weight",
}

POSITIONS = frozenset({"argmax", "argmin"})
"""The reductions whose result is the position of an element instead of its value."""

SCANS: dict[str, str] = {kind: REDUCTIONS[kind] for kind in ("sum", "prod", "max", "min")}
"""The reductions that exist as scans too: running along an axis, with a result for every element."""
