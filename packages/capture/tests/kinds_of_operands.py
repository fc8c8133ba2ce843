"""Objects of all kinds that programs compute with beside tensors, and what they do with them."""

import collections
import decimal
import enum
import fractions
import pathlib

import numpy as np


class OwnInt(int):
    pass


class OwnFloat(float):
    pass


class OwnText(str):
    pass


class OwnBytes(bytes):
    pass


class OwnTuple(tuple):
    pass


class OwnList(list):
    pass


class OwnDict(dict):
    pass


class OwnSet(set):
    pass


class Colour(enum.IntEnum):
    RED = 2


class Position:
    def __index__(self):
        return 2

    def __repr__(self):
        return type(self).__name__


class Declines(Position):
    def __mul__(self, other):
        return NotImplemented

    def __add__(self, other):
        return NotImplemented

    def __eq__(self, other):
        return NotImplemented

    __hash__ = None


class FromTheRight:
    """Asked by whatever stands on its left and does not know."""

    def __repr__(self):
        return "FromTheRight"

    def __radd__(self, other):
        return "radd", other

    def __rmod__(self, other):
        return "rmod", other

    def __rmul__(self, other):
        return "rmul", other

    def __rand__(self, other):
        return "rand", other

    def __gt__(self, other):
        return "gt", other

    def __eq__(self, other):
        return "eq"

    __hash__ = object.__hash__


class Number:
    def __float__(self):
        return 2.0

    def __int__(self):
        return 2

    def __repr__(self):
        return "Number"


Pair = collections.namedtuple("Pair", "a b")

OBJECTS = {
    "int64": lambda: np.int64(2),
    "float32": lambda: np.float32(2),
    "float64": lambda: np.float64(2),
    "truth of numpy": lambda: np.bool_(True),
    "text of numpy": lambda: np.str_("a"),
    "array": lambda: np.arange(2),
    "own int": lambda: OwnInt(2),
    "own float": lambda: OwnFloat(2),
    "own text": lambda: OwnText("a"),
    "own bytes": lambda: OwnBytes(b"a"),
    "own tuple": lambda: OwnTuple((1, 2)),
    "own list": lambda: OwnList([1, 2]),
    "own dict": lambda: OwnDict({2: 1}),
    "own set": lambda: OwnSet({1, 2}),
    "position": Position,
    "declines": Declines,
    "from the right": FromTheRight,
    "number": Number,
    "enum": lambda: Colour.RED,
    "named tuple": lambda: Pair(1, 2),
    "decimal": lambda: decimal.Decimal(2),
    "fraction": lambda: fractions.Fraction(2),
    "path": lambda: pathlib.PurePosixPath("a"),
    "error": lambda: ValueError("a"),
    "object": object,
}
PLAIN = {
    "int": lambda: 2,
    "float": lambda: 2.5,
    "whole float": lambda: 2.0,
    "truth": lambda: True,
    "complex": lambda: 2 + 0j,
    "text": lambda: "a%s",
    "text of two": lambda: "%s %s",
    "bytes": lambda: b"a%r",
    "list": lambda: [1, 2],
    "tuple": lambda: (1, 2),
    "tuple of one": lambda: (1,),
    "set": lambda: {1, 2},
    "frozenset": lambda: frozenset({1, 2}),
    "dict": lambda: {2: 1, "a": 3},
    "keys": lambda: {2: 1}.keys(),
    "items": lambda: {2: 1}.items(),
    "deque": lambda: collections.deque([1, 2]),
    "range": lambda: range(3),
    "none": lambda: None,
    "slice": lambda: slice(1, 2),
    "class": lambda: int,
    "bytearray": lambda: bytearray(b"a"),
}
OPERATORS = "+ - * / // % ** @ & | ^ << >> < <= == != > >= in += -= *= |= &= %=".split()  # noqa: SIM905
CALLS = [line.strip() for line in """
    enumerate('ab', a); range(a); range(1, a); [1, 2, 1].index(1, a); round(2.567, a); divmod(7, a); divmod(a, 7)
    pow(3, a); pow(a, 2); pow(3, a, 5); int(a); float(a); complex(a); abs(a); len(a); sum([1], a); sum([a, a])
    min(a, 2); max([2, a]); max(a, 3); max([1, 2], key=None); sorted([a, 1]); sorted([a, a]); list(zip(a, 'ab'))
    [1, 2, 3][a:]; [1, 2, 3, 4][a]; (1, 2, 3, 4)[a]; 'abcd'[a]; 'abcd'[:a]; 'a'.center(a); 'a'.join([a, 'b'])
    'abc'.startswith(a); 'abab'.replace('a', a); 'abab'.count(a); 'a,b'.split(a); 'abc'.find(a); 'a'.ljust(a, '*')
    chr(a); hex(a); bin(a); ord(a); str(a); repr(a); format(a, ''); f'{a}'; f'{a!r:>5}'; '{} {}'.format(a, 1)
    bool(a); not a; hash(a) == hash(2); isinstance(a, (int, float)); {2: 1, 'a': 3}.get(a); {2: 1, 'a': 3}.get(a, 7)
    a in {2: 1, 'a': 3}; a in [1, 2, 'a']; a in (1, 2, 'a'); a in {1, 2, 'a'}; a in {frozenset({1, 2})}
    [1, 2, 'a', 2].count(a); [1, 2, 'a'].index(a); (1, 2, 'a').count(a); {a: 1}; len({a, 2, 'a'}); {a: 1} == {2: 1}
    {2, 'a'} & {2.0}; dict([(a, 1)]); dict.fromkeys([a, 2]); [a] == [2]; (a,) == (2,); (a, 1) == (a,); (a, 1) < (2, 2)
    [a, 1] < [3]; list(a); tuple(a); set(a) == {1, 2}; dict(a); any([a]); all([a, 0]); a and 1; a or 1; (1 if a else 2)
    [*a]; list(map(str, [a])); list(filter(None, [a, 0])); callable(a); iter(a) is None; torch.ones(3)[a]
    torch.ones(3) * a; a * torch.ones(2); torch.zeros(a); torch.full((2,), a); x.view(a); x.sum(a); torch.arange(a)
    x.add(a); x == a; torch.tensor(a); torch.tensor([a, a]); x.reshape(a, -1); x.repeat(a); torch.ones(4).split(a)
    x.to(torch.float64) * a; torch.cat([x, x], a); x.unsqueeze(a); torch.add(x, 1, alpha=a); torch.clamp(x, max=a)
    x.masked_fill(x > 0, a); torch.where(x > 0, x, a); x ** a; x // a; x % a; x.pow(a); torch.pow(a, x)
    collections.deque([1, 2], a); collections.deque([1, 2, 3]).rotate(a); list(itertools.islice([1, 2, 3], a))
    list(itertools.repeat(1, a)); list(itertools.accumulate([1, a])); collections.Counter([a, 2])[2]
    collections.defaultdict(int, {2: 6})[a]; math.floor(a); math.sqrt(a); math.isclose(a, 2); math.gcd(a, 4)
    operator.index(a); operator.mul([1], a); operator.itemgetter(1)([1, a]); functools.reduce(operator.add, [1, a])
    heapq.nlargest(1, [1, 3, 2]); max([1, 2], key=lambda v: v == a); bytes(a); bytearray(a); slice(a)
    sum(v == a for v in (1, 2, 2)); [v == a for v in (1, 2, 2)]; [v for v in range(4) if v == a]; next(iter([a]))
    getattr(a, 'real', None); a.__class__.__name__; print(a); abs(-a); -a; +a; ~a; a[0]; a[:1]; len([a] * 2)
""".strip().replace(";", "\n").splitlines()]  # fmt: skip
