"""Functions of every make, and the classes that models use."""

import dataclasses
import functools
import typing
from collections import namedtuple

import torch

import capture


def scaled(a, b=2, *args, k=1, **kwargs):
    return a * b + len(args) + k + sum(kwargs.values())


def test_arguments(check, x):
    check(lambda a: (scaled(a), scaled(a, 3, 4, 5, k=2, m=3), scaled(*[a], b=5), scaled(b=1, a=a)), x)


def test_nested_functions_closures_partials(check, x):
    def outer(a):
        factor = 2

        def inner(b, *, by=factor):
            nonlocal factor
            factor += 1
            return b * by + a

        twice = functools.partial(inner, by=5)
        return inner(a), twice(a), factor, (lambda *v, **k: v[0] + k["q"])(a, q=1)

    check(outer, x)


def test_recursion(check, x):
    def power(a, n):
        return a if n == 1 else a * power(a, n - 1)

    check(power, x, 4)


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs), function.__name__

    return wrapper


def test_decorators(check, x):
    @logged
    def add(a, b):
        return a + b

    check(lambda a: add(a, b=a), x)


@dataclasses.dataclass
class Point:
    a: torch.Tensor
    weight: int = 2

    @property
    def double(self):
        return self.a * self.weight

    def shifted(self, by):
        return Point(self.a + by, self.weight)

    @classmethod
    def zero(cls):
        return cls(0)

    @staticmethod
    def name():
        return "point"


class Special(Point):
    def shifted(self, by):
        return super().shifted(by * 2)

    def __add__(self, other):
        return Special(self.a + other.a)

    def __getattr__(self, name):
        return name.upper()


class Pair(typing.NamedTuple):
    left: torch.Tensor
    right: int


Old = namedtuple("Old", "u v")


def test_objects_made_inside(check, x):
    def make(a):
        p = Special(a, 3)
        q = p.shifted(1) + p
        return q.a, p.double, p.other, Point.zero().a, p.name(), isinstance(p, Point)

    check(make, x)


def test_objects_that_leave(check, x):
    check(lambda a: Point(a + 1, 3), x)
    check(lambda a: (Pair(a + 1, 2), Old(1, a)._replace(u=a), Pair(a, 1).right), x)


def test_a_function_that_leaves_still_works(x):
    def make(a):
        b = a + 1

        def later(c):
            return b + c

        return later, later

    first, second = capture.optimize("eager", strict=True)(make)(x)
    assert first is second
    assert torch.equal(first(x), x + 1 + x)


def test_builtins(check, x):
    def many(a):
        return (
            isinstance(a, torch.Tensor), hasattr(a, "nope"), getattr(a, "ndim"), len(a), list(zip([1, 2], "ab")),
            list(enumerate("a")), [v + 1 for v in [1, 2]], min(1, 2), max([1, 5]), sum([a, a]), any([0, 1]),
            all([]), int(2.5), float(3), bool([]), str(3), list(reversed([1, 2])), abs(-3), round(2.5), divmod(7, 2),
            tuple(range(3)), ["a", "b"], "-".join("ab"), type(a) is torch.Tensor, callable(len),
            list(filter(None, [0, 1])), functools.reduce(lambda p, q: p + q, [1, 2, 3]),
        )  # fmt: skip

    check(many, x)


def test_wrong_arguments_raise_what_python_raises(check, x):
    check(lambda a: scaled(), x, graphs=0, breaks=1)
    check(lambda a, more: scaled(a + 1, k=a, **more), x, {"k": 3})
    check(lambda a, more: (a, scaled(*[a], k=a, **more)), x, [], graphs=0)


class Tagging(type):
    """Makes instances in its own way, and computes an attribute of its classes."""

    def __call__(cls, *args):
        made = super().__call__(*args)
        made.tag = cls.size
        return made

    @property
    def size(cls):
        return len(cls.__name__)


class Tagged(metaclass=Tagging):
    def __init__(self, value):
        self.value = value


def test_metaclasses(check, x):
    check(lambda a: Tagged(a + 1).value * Tagged(a).tag + Tagged.size, x)
