"""The operators in C++: one table of formats.  A name's meaning is in ``ir/ops.py``; its functions are in ``runtime/``.

An entry holds for every kind of operand unless a kind has its own: ``float``, ``int``, ``bool`` for a scalar truth
value, ``mask`` for a vector of them (lanes of 0 and -1), ``vector int`` for integer vectors.
"""

from __future__ import annotations

from collections.abc import Mapping

from inductor.codegen.expressions import ITSELF, Format, IndexStyle, Precedence, call, infix, prefix

ANY = "any"
"""The key of the format for every kind of operand without one of its own."""

INDEX_STYLE = IndexStyle(
    divide=infix("/", Precedence.MULTIPLY),
    modulo=infix("%", Precedence.MULTIPLY),
    floor_divide=call("floor_divide<i64>", 2),
    floor_modulo=call("modulo<i64>", 2),
)

_OR = infix("|", Precedence.OR, closed=True)
_AND = infix("&", Precedence.AND, closed=True)
_XOR = infix("^", Precedence.XOR, closed=True)
_EQUAL = infix("==", Precedence.EQUAL, closed=True)
_UNEQUAL = infix("!=", Precedence.EQUAL, closed=True)


def _compare(operator: str) -> Format:
    return Format(f"{{0}} {operator} {{1}}", Precedence.COMPARE, (Precedence.ADD, Precedence.ADD))


def _by_lane(function: str) -> dict[str, Format]:
    """The formats of a function of two scalars that has another name for vectors."""
    return {
        ANY: call(function, 2),
        "vector int": call(f"{function}_lanes", 2),
        "vector float": call(f"{function}_lanes", 2),
    }


def _same(*names: str, arity: int = 1) -> dict[str, dict[str, Format]]:
    """Operators whose function has their own name."""
    return {name: {ANY: call(name, arity)} for name in names}


FORMATS: Mapping[str, Mapping[str, Format]] = {
    # arithmetic
    "add": {ANY: infix("+", Precedence.ADD), "bool": _OR, "mask": _OR},
    "sub": {ANY: infix("-", Precedence.ADD), "bool": _XOR, "mask": _XOR},
    "mul": {ANY: infix("*", Precedence.MULTIPLY), "bool": _AND, "mask": _AND},
    "div": {ANY: infix("/", Precedence.MULTIPLY)},
    "neg": {ANY: prefix("-")},
    "abs": {ANY: call("magnitude", 1), "float": call("absolute", 1), "vector float": call("absolute", 1)},
    "sign": {ANY: call("sign", 1), "bool": ITSELF, "mask": ITSELF},
    "floordiv": _by_lane("floor_divide"),
    "truncdiv": _by_lane("truncate_divide"),
    "mod": _by_lane("modulo"),
    "fmod": _by_lane("fmodulo"),
    "maximum": {ANY: call("maximum", 2), "bool": _OR, "mask": _OR},
    "minimum": {ANY: call("minimum", 2), "bool": _AND, "mask": _AND},
    "fmax": {ANY: call("fmaximum", 2), "bool": _OR, "mask": _OR},
    "fmin": {ANY: call("fminimum", 2), "bool": _AND, "mask": _AND},
    **_same("fma", arity=3),
    **_same("copysign", "nextafter", "atan2", "hypot", arity=2),
    # comparison
    "eq": {ANY: _EQUAL},
    "ne": {ANY: _UNEQUAL},
    "lt": {ANY: _compare("<"), "mask": _compare(">")},  # in masks true is -1
    "le": {ANY: _compare("<="), "mask": _compare(">=")},
    "gt": {ANY: _compare(">"), "mask": _compare("<")},
    "ge": {ANY: _compare(">="), "mask": _compare("<=")},
    "isnan": {ANY: call("is_nan", 1)},
    "isinf": {ANY: call("is_inf", 1)},
    "signbit": {ANY: call("sign_bit", 1)},
    # logic
    "and": {ANY: _AND},
    "or": {ANY: _OR},
    "xor": {ANY: _XOR},
    "not": {ANY: prefix("~"), "bool": prefix("!")},
    "shl": {ANY: call("shift_left", 2)},
    "shr": {ANY: call("shift_right", 2)},
    "where": {ANY: call("where", 3)},
    # rounding
    **_same("floor", "ceil", "trunc"),
    "round": {ANY: call("round_even", 1)},
    # elementary
    **_same(
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos",
        "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "lgamma", "digamma",
        "sigmoid", "reciprocal",
    ),
    "pow": {ANY: call("pow", 2), "int": call("integer_power", 2), "vector int": call("integer_power_lanes", 2)},
    # indexing
    "wrapped": {ANY: call("wrap_index", 2, "outside")},
    "within": {ANY: call("check_index", 2, "outside")},
}  # fmt: skip
"""The format of every operator, by the kind of its operands."""

RANDOM: Mapping[str, tuple[str, int]] = {
    "rand": ("random_uniform", 2),
    "randn": ("random_normal", 2),
    "randint64": ("random_integer", 4),
}
"""Random functions and their numbers of operands; each is told the type to make."""


def random_format(op: str, made: str) -> Format:
    """The format for numbers of a C++ type."""
    function, arity = RANDOM[op]
    return call(f"{function}<{made}>", arity)


def format_of(op: str, kind: str) -> Format:
    """The format for operands of a kind; the vector kinds fall back to their scalar ones."""
    entry = FORMATS[op]
    for candidate in (kind, kind.removeprefix("vector "), ANY):
        if candidate in entry:
            return entry[candidate]
    raise KeyError(f"{op} has no form for {kind}")
