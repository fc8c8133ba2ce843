"""Texts and formats: parentheses are decided here once, for every language that is printed.

A piece of text knows how tightly it binds; a format puts pieces together and adds parentheses where a piece binds less
tightly than its place demands.  C++ and Python agree on the order of the operators used below, except that Python's
comparisons bind less tightly than its bitwise operators; C++'s order is the cautious one and right for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from inductor.ir.index import Atom, FloorDiv, Index, Symbol


class Precedence(IntEnum):
    """The strength with which an operator binds; larger binds tighter."""

    ANY = 0
    CHOICE = 1
    LOGICAL = 2
    OR = 3
    XOR = 4
    AND = 5
    EQUAL = 6
    COMPARE = 7
    SHIFT = 8
    ADD = 9
    MULTIPLY = 10
    UNARY = 11
    ATOM = 12


@dataclass(frozen=True, slots=True)
class Text:
    """Printed text and how tightly its outermost operator binds."""

    text: str
    precedence: Precedence = Precedence.ATOM

    def within(self, demand: Precedence) -> str:
        """The text, in parentheses if it binds less tightly than ``demand``."""
        return self.text if self.precedence >= demand else f"({self.text})"

    def __str__(self) -> str:
        return self.text


def signed(text: str, negative: bool) -> Text:
    """A number, before which there is a sign where it is ``negative``."""
    return Text(text, Precedence.UNARY if negative else Precedence.ATOM)


@dataclass(frozen=True, slots=True)
class Format:
    """The form of an operator: ``template`` has ``{0}``, ``{1}``..., and ``demands`` are the least strengths with which
    each operand must bind."""

    template: str
    precedence: Precedence
    demands: tuple[Precedence, ...]

    def __call__(self, *operands: Text) -> Text:
        places = [operand.within(demand) for operand, demand in zip(operands, self.demands, strict=True)]
        return Text(self.template.format(*places), self.precedence)

    @property
    def is_call(self) -> bool:
        """True for function calls, whose operands need no parentheses."""
        return self.precedence == Precedence.ATOM


def infix(operator: str, precedence: Precedence, closed: bool = False) -> Format:
    """``a op b``, grouping to the left.  ``closed`` puts parentheses around every operand that is an operation: for
    operators whose binding readers (and compilers' warnings) do not trust."""
    if closed:
        return Format(f"{{0}} {operator} {{1}}", precedence, (Precedence.UNARY, Precedence.UNARY))
    return Format(f"{{0}} {operator} {{1}}", precedence, (precedence, Precedence(precedence + 1)))


def prefix(operator: str) -> Format:
    return Format(f"{operator}{{0}}", Precedence.UNARY, (Precedence.ATOM,))


def call(function: str, arity: int, *more: str) -> Format:
    """A function's call; ``more`` are arguments that are the same in each."""
    places = ", ".join([*(f"{{{position}}}" for position in range(arity)), *more])
    return Format(f"{function}({places})", Precedence.ATOM, (Precedence.ANY,) * arity)


ITSELF = Format("{0}", Precedence.ATOM, (Precedence.ATOM,))
"""The format of an operator that leaves its operand as it is."""


# -- index expressions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IndexStyle:
    """The form of floor division and modulo in a language: the plain operators where the numerator is never negative,
    the functions otherwise."""

    divide: Format
    modulo: Format
    floor_divide: Format
    floor_modulo: Format


def index_text(index: Index, style: IndexStyle, names: Mapping[Symbol, str] | None = None) -> Text:
    """The index in the target's language; ``names`` replaces symbols by texts that bind like atoms."""
    names = names or {}
    if not index.terms:
        return Text("0")
    total: Text | None = None
    for monomial, coefficient in index.terms:
        if total is None:
            total = _product(monomial, coefficient, style, names)
        else:
            term = _product(monomial, abs(coefficient), style, names)
            total = (_PLUS if coefficient > 0 else _MINUS)(total, term)
    assert total is not None
    return total


_PLUS = infix("+", Precedence.ADD)
_MINUS = infix("-", Precedence.ADD)
_TIMES = infix("*", Precedence.MULTIPLY)


def _product(monomial: tuple[Atom, ...], coefficient: int, style: IndexStyle, names: Mapping[Symbol, str]) -> Text:
    factors = [_atom(atom, style, names) for atom in monomial]
    if factors and coefficient == -1:  # -(a // b), as -a // b is another number in Python
        factors[0] = Text(f"-{factors[0].within(Precedence.ATOM)}", Precedence.UNARY)
    elif coefficient != 1 or not factors:
        factors.insert(0, Text(str(coefficient), Precedence.ATOM if coefficient >= 0 else Precedence.UNARY))
    product = factors[0]
    for factor in factors[1:]:
        product = _TIMES(product, factor)
    return product


def _atom(atom: Atom, style: IndexStyle, names: Mapping[Symbol, str]) -> Text:
    if isinstance(atom, Symbol):
        return Text(names.get(atom, atom.name))
    numerator = index_text(atom.numerator, style, names)
    divisor = index_text(atom.divisor, style, names)
    plain = atom.numerator.is_nonnegative() and atom.divisor.is_nonnegative()
    if isinstance(atom, FloorDiv):
        return (style.divide if plain else style.floor_divide)(numerator, divisor)
    return (style.modulo if plain else style.floor_modulo)(numerator, divisor)
