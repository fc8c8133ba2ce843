"""Exact integer expressions over loop variables and sizes.

An index is kept as a polynomial in normal form, so that equality is structural, strides can be read off and simplifying
costs microseconds.  Floor division and modulo appear as opaque factors once the known ranges cannot remove them.  This
is a small part of what a computer algebra system does, and a hundred times faster at it: index arithmetic is the inner
loop of the compiler.  It must not know what is indexed, nor in which language it will be printed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, Union

IndexLike: TypeAlias = Union["Index", int]


@dataclass(frozen=True, eq=True)
class Symbol:
    """A named integer: a loop variable (0 <= name < size), a size (``lower`` <= name) or a value read from a tensor."""

    name: str
    size: Index | None = None
    lower: int = 0

    @property
    def unbounded(self) -> bool:
        """True if nothing is known of its value before the graph runs: it is read from a tensor, or is an integer of
        any sign."""
        return self.size is None and self.lower <= 0

    @cached_property
    def _hash(self) -> int:
        # Without ``size``, which is an Index of symbols itself: two symbols that differ in it alone are told apart by
        # ``==``, and hashing stays cheap.
        return hash((self.name, self.lower))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class FloorDiv:
    """``numerator // divisor`` (rounding down) where the ranges do not say what it is."""

    numerator: Index
    divisor: Index

    def __str__(self) -> str:
        return f"({self.numerator.as_factor()} // {self.divisor.as_factor()})"


@dataclass(frozen=True, slots=True)
class Mod:
    """``numerator % divisor`` (of the divisor's sign) where the ranges do not say what it is."""

    numerator: Index
    divisor: Index

    def __str__(self) -> str:
        return f"({self.numerator.as_factor()} % {self.divisor.as_factor()})"


Atom: TypeAlias = Symbol | FloorDiv | Mod
Monomial: TypeAlias = tuple[Atom, ...]


@dataclass(frozen=True, eq=False)
class Index:
    """A sum of integer multiples of products of atoms; ``terms`` is sorted and has no zero coefficient."""

    terms: tuple[tuple[Monomial, int], ...]

    # -- construction -------------------------------------------------------------------------------------------------

    @staticmethod
    def of(value: IndexLike | Symbol) -> Index:
        """A constant or a symbol as an index; an index is returned as it is."""
        if isinstance(value, Index):
            return value
        if isinstance(value, Symbol):
            return Index((((value,), 1),))
        return Index((((), int(value)),)) if value else ZERO

    @staticmethod
    def of_atom(atom: Atom) -> Index:
        return Index((((atom,), 1),))

    @staticmethod
    def _from(terms: Mapping[Monomial, int]) -> Index:
        """The normal form of a sum: zero terms dropped, the others sorted, so that equal sums have equal ``terms``."""
        kept = [item for item in terms.items() if item[1]]
        if len(kept) > 1:
            kept.sort(key=_term_order)
        return Index(tuple(kept))

    # -- identity -----------------------------------------------------------------------------------------------------

    @cached_property
    def _hash(self) -> int:
        return hash(self.terms)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, int):
            return self.as_int() == other
        return isinstance(other, Index) and self._hash == other._hash and self.terms == other.terms

    # -- reading ------------------------------------------------------------------------------------------------------

    def as_int(self) -> int | None:
        """The value if it is a constant."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    def as_atom(self) -> Atom | None:
        """The atom if the index is exactly one atom."""
        if len(self.terms) == 1:
            monomial, coefficient = self.terms[0]
            if coefficient == 1 and len(monomial) == 1:
                return monomial[0]
        return None

    def as_symbol(self) -> Symbol | None:
        """The symbol if the index is exactly one symbol."""
        atom = self.as_atom()
        return atom if isinstance(atom, Symbol) else None

    @cached_property
    def symbols(self) -> frozenset[Symbol]:
        """Every symbol that occurs, also inside divisions."""
        return frozenset(symbol for monomial, _ in self.terms for atom in monomial for symbol in _symbols_of(atom))

    @property
    def unbounded(self) -> bool:
        """True if it mentions a symbol without a known range, so that it may be negative, 0 or too large for its
        axis."""
        return any(symbol.unbounded for symbol in self.symbols)

    def stride_of(self, symbol: Symbol) -> Index | None:
        """The coefficient of ``symbol``: the step that the index makes when it grows by one; None if that step
        varies."""
        # The coefficient of the symbol, which may mention others: in ``i * n + j`` the stride of i is n.
        stride: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms:
            holders = [atom for atom in monomial if symbol in _symbols_of(atom)]
            if not holders:
                continue
            # ``i * i``, or ``i // 4``: no single step.
            if len(holders) > 1 or holders[0] != symbol:
                return None
            rest = list(monomial)
            rest.remove(symbol)
            stride[tuple(rest)] = stride.get(tuple(rest), 0) + coefficient
        return Index._from(stride)

    def divisible_by(self, divisor: IndexLike) -> Index | None:
        """The exact quotient if every term has ``divisor`` as a factor."""
        return _exact_quotient(self, Index.of(divisor))

    # -- arithmetic ---------------------------------------------------------------------------------------------------

    def __add__(self, other: IndexLike) -> Index:
        other = Index.of(other)
        if not other.terms:
            return self
        if not self.terms:
            return other
        # Like terms meet in the dictionary; those that cancel become 0, which ``_from`` drops.
        total = dict(self.terms)
        for monomial, coefficient in other.terms:
            total[monomial] = total.get(monomial, 0) + coefficient
        return Index._from(total)

    def __neg__(self) -> Index:
        return Index(tuple((monomial, -coefficient) for monomial, coefficient in self.terms))

    def __sub__(self, other: IndexLike) -> Index:
        return self + (-Index.of(other))

    def __rsub__(self, other: IndexLike) -> Index:
        return Index.of(other) + (-self)

    def __mul__(self, other: IndexLike) -> Index:
        other = Index.of(other)
        factor = other.as_int()
        if factor is not None:
            return self._scaled(factor)
        # Neither side is a constant: multiplied out, with the atoms of each product sorted, so that ``a * b`` is ``b *
        # a``.
        total: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                monomial = tuple(sorted(left + right, key=_atom_order))
                total[monomial] = total.get(monomial, 0) + a * b
        return Index._from(total)

    __radd__ = __add__
    __rmul__ = __mul__

    def _scaled(self, factor: int) -> Index:
        if factor == 0:
            return ZERO
        if factor == 1:
            return self
        return Index(tuple((monomial, coefficient * factor) for monomial, coefficient in self.terms))

    def __floordiv__(self, other: IndexLike) -> Index:
        return _floordiv(self, Index.of(other))

    def __mod__(self, other: IndexLike) -> Index:
        return _mod(self, Index.of(other))

    # -- rewriting ----------------------------------------------------------------------------------------------------

    def subs(self, replacements: Mapping[Symbol, IndexLike]) -> Index:
        """This expression with symbols replaced, simplified again."""
        if not replacements or self.symbols.isdisjoint(replacements):
            return self
        total = ZERO
        for monomial, coefficient in self.terms:
            product = Index.of(coefficient)
            for atom in monomial:
                product = product * _subs_atom(atom, replacements)
            total = total + product
        # Substitution may put together what a division took apart.
        return _recombined(total)

    def evaluate(self, values: Mapping[Symbol, int]) -> int:
        """The number this is for the given values of its symbols."""
        return sum(
            coefficient * math.prod(_value_of(atom, values) for atom in monomial)
            for monomial, coefficient in self.terms
        )

    # -- ranges -------------------------------------------------------------------------------------------------------

    @cached_property
    def bounds(self) -> tuple[int | None, int | None]:
        """The smallest and largest value as far as the ranges of the symbols tell."""
        low: int | None = 0
        high: int | None = 0
        for monomial, coefficient in self.terms:
            term_low, term_high = _scale_bounds(_product_bounds(monomial), coefficient)
            low = None if low is None or term_low is None else low + term_low
            high = None if high is None or term_high is None else high + term_high
        return low, high

    def is_nonnegative(self) -> bool:
        """True if the ranges of the symbols prove that it is never below 0."""
        low = self.bounds[0]
        return low is not None and low >= 0

    def is_below(self, limit: IndexLike) -> bool:
        """True where ``self < limit`` can be proven: loop variables are pushed to the end of their ranges first."""
        #   i * 4 + j < 4 * n, with i < n and j < 4: the ends give (n - 1) * 4 + 3, and 4 * n - 1 minus that is 0
        slack = Index.of(limit) - 1 - _at_upper_ends(self)
        low = slack.bounds[0]
        return low is not None and low >= 0

    # -- text ---------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        parts: list[str] = []
        for monomial, coefficient in self.terms:
            factors = [str(atom) for atom in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            sign = "-" if coefficient < 0 else "+"
            parts.append(f"{sign} {' * '.join(factors)}")
        first = parts[0].removeprefix("+ ").replace("- ", "-", 1)
        return " ".join([first, *parts[1:]])

    __repr__ = __str__

    def as_factor(self) -> str:
        """The text with parentheses where it stands beside a ``*`` or ``//``."""
        constant = self.as_int()
        single = self.as_atom() is not None or (constant is not None and constant >= 0)
        return str(self) if single else f"({self})"


ZERO = Index(())
ONE = Index((((), 1),))


def loop_variable(name: str, size: IndexLike) -> Symbol:
    """A variable that runs from 0 to ``size`` - 1."""
    return Symbol(name, Index.of(size))


def size_symbol(name: str, lower: int = 2) -> Symbol:
    """A size known only at run time; sizes 0 and 1 are compiled apart, hence the default bound."""
    return Symbol(name, None, lower)


# -- order ------------------------------------------------------------------------------------------------------------


def _atom_order(atom: Atom) -> tuple[int, str]:
    """The sort key of an atom: symbols by name, before divisions by their text."""
    return (0, atom.name) if isinstance(atom, Symbol) else (1, str(atom))


def _term_order(term: tuple[Monomial, int]) -> tuple[bool, tuple[tuple[int, str], ...]]:
    """Constants last, the rest by name: text that reads well and never changes between runs."""
    monomial = term[0]
    return not monomial, tuple(_atom_order(atom) for atom in monomial)


# -- walking atoms ----------------------------------------------------------------------------------------------------


def _symbols_of(atom: Atom) -> frozenset[Symbol]:
    """The symbols of an atom, also of those inside a division."""
    if isinstance(atom, Symbol):
        return frozenset((atom,))
    return atom.numerator.symbols | atom.divisor.symbols


def _subs_atom(atom: Atom, replacements: Mapping[Symbol, IndexLike]) -> Index:
    """An atom with its symbols replaced; a division is divided anew, as its operands may now be simpler."""
    if isinstance(atom, Symbol):
        return Index.of(replacements[atom]) if atom in replacements else Index.of(atom)
    numerator, divisor = atom.numerator.subs(replacements), atom.divisor.subs(replacements)
    return numerator // divisor if isinstance(atom, FloorDiv) else numerator % divisor


def _recombined(index: Index) -> Index:
    """The index with ``c * (x % m) + c * m * (x // m)`` put together to ``c * x``."""
    for monomial, coefficient in index.terms:
        if len(monomial) != 1 or not isinstance(monomial[0], Mod):
            continue
        rest = monomial[0]
        whole = rest.numerator // rest.divisor * rest.divisor * coefficient
        if len(whole.terms) == 1 and whole.terms[0] in index.terms:
            part = Index(((monomial, coefficient),))
            return _recombined(index - part - whole + rest.numerator * coefficient)
    return index


def _value_of(atom: Atom, values: Mapping[Symbol, int]) -> int:
    """The value of an atom for given values of its symbols."""
    if isinstance(atom, Symbol):
        return values[atom]
    numerator, divisor = atom.numerator.evaluate(values), atom.divisor.evaluate(values)
    return numerator // divisor if isinstance(atom, FloorDiv) else numerator % divisor


# -- ranges -----------------------------------------------------------------------------------------------------------

_Bounds: TypeAlias = tuple[int | None, int | None]
"""The smallest and the largest value, both included; None for an end that is not known."""


def _atom_bounds(atom: Atom) -> _Bounds:
    """The range of an atom, from the range of its symbol or of its numerator."""
    if isinstance(atom, Symbol):
        high = atom.size.bounds[1] if atom.size is not None else None
        return atom.lower, None if high is None else max(high - 1, atom.lower)
    low, high = _divisor_bounds(atom.numerator, atom.divisor)
    if isinstance(atom, FloorDiv):
        return _quotient_bounds(atom.numerator.bounds, (low, high))
    # A rest lies between 0 and the divisor, without it: it has its sign.
    least = None if low is None else min(low + 1, 0)
    return least, None if high is None else max(high - 1, 0)


def _divisor_bounds(numerator: Index, divisor: Index) -> _Bounds:
    """The range of what ``numerator`` is divided by, which is not 0.  Positions are divided by sizes alone, and where
    there is a position, there is an element: then a divisor that may be positive is."""
    low, high = divisor.bounds
    if high is not None and high <= 0:
        return low, -1
    some = low is not None and low >= 0
    if some or any(symbol.size is not None for symbol in numerator.symbols):
        low = max(low or 1, 1)
    return low, high


def _is_positive(numerator: Index, divisor: Index) -> bool:
    """True if ``divisor``, by which ``numerator`` is divided, is known to be above 0."""
    low = _divisor_bounds(numerator, divisor)[0]
    return low is not None and low >= 1


def _quotient_bounds(numerator: _Bounds, divisor: _Bounds) -> _Bounds:
    """The range of ``numerator // divisor``: nearer to 0 the larger the divisor is, and with the signs of both."""
    (least, most), (low, high) = numerator, divisor
    if low is not None and low > 0:
        # Rounded down, what is negative stays so: -1 at most, however large the divisor is.
        first = None if least is None else least // low if least < 0 else 0 if high is None else least // high
        last = None if most is None else most // low if most >= 0 else -1 if high is None else most // high
        return first, last
    if high is not None and high < 0:
        return _quotient_bounds(_scale_bounds(numerator, -1), _scale_bounds(divisor, -1))
    if least is None or most is None:
        return None, None
    furthest = max(abs(least), abs(most))  # by 1 or -1
    return -furthest, furthest


def _product_bounds(monomial: Monomial) -> _Bounds:
    """The range of a product; known only where all its factors are non-negative, or where it is one atom."""
    low: int | None = 1
    high: int | None = 1
    for atom in monomial:
        atom_low, atom_high = _atom_bounds(atom)
        # Factors of either sign are multiplied at their ends only where they are alone; otherwise nothing is claimed.
        if low is None or atom_low is None or low < 0 or atom_low < 0:
            return _signed_product((low, high), (atom_low, atom_high)) if len(monomial) == 1 else (None, None)
        low = low * atom_low
        high = None if high is None or atom_high is None else high * atom_high
    return low, high


def _signed_product(left: _Bounds, right: _Bounds) -> _Bounds:
    """The range of a product of two ranges of either sign, whose ends are among the products of their ends."""
    if None in left or None in right:
        return right if left == (1, 1) else (None, None)
    corners = [a * b for a in left for b in right if a is not None and b is not None]
    return min(corners), max(corners)


def _scale_bounds(bounds: _Bounds, factor: int) -> _Bounds:
    """A range multiplied by a constant; a negative one swaps its ends."""
    low, high = (None if end is None else end * factor for end in bounds)
    return (low, high) if factor >= 0 else (high, low)


def _at_upper_ends(index: Index) -> Index:
    """An index at least as large, free of loop variables: each variable that adds is put at the end of its range."""
    ends: dict[Symbol, IndexLike] = {}
    for symbol in index.symbols:
        # A size, which has no upper end.
        if symbol.size is None:
            continue
        stride = index.stride_of(symbol)
        if stride is not None and stride.is_nonnegative():
            ends[symbol] = symbol.size - 1
        elif stride is not None and (-stride).is_nonnegative():
            ends[symbol] = symbol.lower
    return index.subs(ends)


# -- division ---------------------------------------------------------------------------------------------------------


def _exact_quotient(index: Index, divisor: Index) -> Index | None:
    """``index / divisor`` if ``divisor`` is a single term that divides every term of ``index``."""
    if len(divisor.terms) != 1:
        # A divisor of several terms, as ``n + 1``, divides itself alone; 0 divides nothing.
        return ONE if divisor.terms and index == divisor else None
    factors, number = divisor.terms[0]
    quotient: dict[Monomial, int] = {}
    for monomial, coefficient in index.terms:
        rest = list(monomial)
        for atom in factors:
            if atom not in rest:
                return None
            rest.remove(atom)
        if coefficient % number:
            return None
        quotient[tuple(rest)] = coefficient // number
    return Index._from(quotient)


def _split(index: Index, divisor: Index) -> tuple[Index, Index]:
    """The quotient and the rest of a division, ``index == quotient * divisor + rest``: terms that ``divisor`` divides
    exactly make the quotient, all others the rest."""
    quotient, rest = ZERO, ZERO
    number = divisor.as_int()
    for term in index.terms:
        part = Index((term,))
        exact = _exact_quotient(part, divisor)
        if exact is not None:
            quotient = quotient + exact
        # Constants are split as Python divides: 7 over 4 is 1 and 3.
        elif number is not None and not term[0]:
            quotient, rest = quotient + term[1] // number, rest + term[1] % number
        else:
            rest = rest + part
    return quotient, rest


def _floordiv(index: Index, divisor: Index) -> Index:
    """``index // divisor``, simplified as far as the ranges of the symbols allow."""
    number = divisor.as_int()
    if number == 0:
        raise ZeroDivisionError(f"index {index} divided by zero")
    if number == 1 or not index.terms:
        return index
    if (value := index.as_int()) is not None and number is not None:
        return Index.of(value // number)
    quotient, rest = _split(index, divisor)
    # ``(q * d + r) // d`` is q for 0 <= r < d, which is then positive: this is where most divisions vanish.
    if rest.is_nonnegative() and rest.is_below(divisor):
        return quotient
    # ``(4 * i + 2 * j) // 6`` is ``(2 * i + j) // 3``: what is divided out is positive, so that both keep their signs.
    if number is not None and (common := _content(rest, number)) > 1:
        return quotient + _floordiv(_divided(rest, common), Index.of(number // common))
    return quotient + _floordiv_atom(rest, divisor)


def _floordiv_atom(rest: Index, divisor: Index) -> Index:
    """The division of a rest that could not be split: ``(x // a) // b`` becomes ``x // (a * b)`` and ``(x % (a * b)) //
    a`` becomes ``(x // a) % b``; anything else becomes a ``FloorDiv``."""
    atom = rest.as_atom()
    # Rounding down twice is rounding down once where the second divisor is positive; the first may have any sign.
    if isinstance(atom, FloorDiv) and _is_positive(atom.numerator, divisor):
        return atom.numerator // (atom.divisor * divisor)
    # For the same reason b has to be positive here, and a need not be.
    factor = _exact_quotient(atom.divisor, divisor) if isinstance(atom, Mod) else None
    if isinstance(atom, Mod) and factor is not None and _is_positive(atom.numerator, factor):
        return (atom.numerator // divisor) % factor
    return Index.of_atom(FloorDiv(rest, divisor))


def _mod(index: Index, divisor: Index) -> Index:
    """``index % divisor``, simplified by the same steps as a division, whose quotient is dropped."""
    number = divisor.as_int()
    if number == 0:
        raise ZeroDivisionError(f"index {index} modulo zero")
    if number == 1 or not index.terms:
        return ZERO
    if (value := index.as_int()) is not None and number is not None:
        return Index.of(value % number)
    rest = _split(index, divisor)[1]
    if rest.is_nonnegative() and rest.is_below(divisor):
        return rest
    if number is not None and (common := _content(rest, number)) > 1:
        return _mod(_divided(rest, common), Index.of(number // common)) * common
    atom = rest.as_atom()
    # ``(x % (a * b)) % a`` is ``x % a``, whatever the signs are.
    if isinstance(atom, Mod) and _exact_quotient(atom.divisor, divisor) is not None:
        return atom.numerator % divisor
    return Index.of_atom(Mod(rest, divisor))


def _content(index: Index, number: int) -> int:
    """The greatest number that divides every coefficient and ``number``."""
    return math.gcd(number, *(coefficient for _, coefficient in index.terms))


def _divided(index: Index, common: int) -> Index:
    """The index with every coefficient divided by ``common``, which divides them all."""
    return Index(tuple((monomial, coefficient // common) for monomial, coefficient in index.terms))
