"""Classes that captured code defines: part of the graph while they stay inside, CPython's own where they leave."""

import gc
import sys

import pytest
import torch

import capture


def plain(a):
    b = a * 2

    class Held:
        """What it says."""

        factor = 3
        shared = b
        names = ["x"]

        def __init__(self, more=1):
            self.more = more

        def get(self):
            return b * self.factor + self.shared * self.more

        def __add__(self, other):
            return Held(self.more + other.more)

        def __len__(self):
            return self.more

    held = Held() + Held(more=4)
    Held.names.append("y")
    said = Held.__name__, Held.__qualname__, Held.__doc__, Held.__module__ == __name__, len(held), bool(Held(0))
    return held.get() + 1, said, held.names, isinstance(held, Held), type(held) is Held, Held.__mro__ == (Held, object)


def derived(a):
    class Base:
        def __init__(self, scale):
            self.scale = scale

        def apply(self, t):
            return t * self.scale

        def __repr__(self):
            return f"<{type(self).__name__} {self.scale}>"

    class Derived(Base):
        def __init__(self, scale):
            super().__init__(scale + 1)
            assert __class__ is Derived

        def apply(self, t):
            return super().apply(t) + 1

    made = Derived(2)
    return made.apply(a), repr(made), issubclass(Derived, Base), isinstance(made, Base)


def modules(a):
    class Squared(torch.nn.Module):
        def forward(self, t):
            return t * t

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Squared()

        def forward(self, t):
            return self.inner(t) + 1

    return Both()(a - 1) + 2


def members(a):
    class Box:
        def __init__(self, value):
            self._value = value

        @property
        def value(self):
            return self._value

        @value.setter
        def value(self, new):
            self._value = new + 1

        @staticmethod
        def twice(t):
            return t * 2

        @classmethod
        def of(cls, t):
            return cls(cls.twice(t))

    box = Box.of(a)
    box.value = box.value + 1
    try:
        Box(a).other
    except AttributeError as error:
        said = str(error)
    return box.value, Box.twice(a), said


def slots_and_methods(a):
    class Vector:
        __slots__ = ("x", "y")

        def __init__(self, x, y):
            self.x, self.y = x, y

        def __iter__(self):
            yield self.x
            yield self.y

        def __eq__(self, other):
            return isinstance(other, Vector) and tuple(self) == tuple(other)

        def __call__(self, t):
            return t * self.x + self.y

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.y += 1

    vector = Vector(2, 3)
    with vector as same:
        b = same(a)
    return vector(b), list(vector), Vector(2, 4) == vector, Vector.__hash__ is None


def errors(a):
    class Refused(ValueError):
        def __init__(self, code):
            super().__init__("refused", code)
            self.code = code

    try:
        raise Refused(3)
    except ValueError as error:
        return a + error.code, error.args, type(error).__name__


def bodies(a):
    size = 3

    class Outer:
        rows: int = size + 1
        squares = [index * index for index in range(4)]
        if rows > 2:
            kind = "large"
        else:
            kind = "small"
        temporary = 1
        del temporary

        class Inner:
            depth = 2

        def names(self):
            return self.Inner.depth, size

    return (
        a + Outer.rows,
        Outer.squares,
        Outer.kind,
        hasattr(Outer, "temporary"),
        Outer().names(),
        Outer.Inner.__qualname__,
    )


def in_a_loop(a):
    total, kinds = a, []
    for index in range(3):

        class Step:
            amount = index

        kinds.append(Step)
        total = total + Step.amount
    return total, len({*kinds}), [kind.amount for kind in kinds]


def a_factory(a):
    def make(scale):
        class Scaled:
            def __call__(self, t):
                return t * scale

        return Scaled

    first, second = make(2), make(3)
    return first()(a) + second()(a), first is second, isinstance(first(), second)


WHOLE = [plain, derived, modules, members, slots_and_methods, errors, bodies, in_a_loop, a_factory]


@pytest.mark.parametrize("function", WHOLE, ids=lambda function: function.__name__)
def test_one_graph(function, check, x):
    check(function, x)


@pytest.mark.parametrize("function", [plain, modules, errors, a_factory], ids=lambda function: function.__name__)
def test_nothing_is_left_of_it(function, x):
    """A dummy is no class that somebody could count."""
    gc.collect()
    before = set(object.__subclasses__()), set(torch.nn.Module.__subclasses__()), set(ValueError.__subclasses__())
    gc.disable()
    try:
        capture.optimize("eager", strict=True)(function)(x)
        after = set(object.__subclasses__()), set(torch.nn.Module.__subclasses__()), set(ValueError.__subclasses__())
    finally:
        gc.enable()
    assert [made for one, other in zip(before, after, strict=True) for made in other - one] == []


class Registered:
    known = []

    def __init_subclass__(cls, **options):
        cls.known.append((cls.__name__, options))


class Counted:
    pass


class Meta(type):
    def __new__(mcs, name, bases, members, **options):
        return super().__new__(mcs, name, bases, {**members, "extra": len(options)})


class Named:
    def __set_name__(self, owner, name):
        self.told = owner.__name__, name


def leaves(a):
    class Held:
        factor = 2

        def get(self):
            return a * self.factor

    return Held(), Held().get() + 1


def is_hung_on_a_list(a, kept):
    class Held:
        pass

    kept.append(Held)
    return a + 1


def outlives_a_break(a):
    class Held:
        factor = 2

    b = a * Held.factor
    print(end="")
    return b + Held.factor


def registers(a):
    class One(Registered, key=1):
        pass

    return a + len(One.known), Registered.known.pop()


def is_counted(a):
    class One(Counted):
        pass

    return a + len(Counted.__subclasses__())


def by_a_metaclass(a):
    class Base(metaclass=Meta, option=1):
        pass

    class Derived(Base):
        def text(self):
            return super().__repr__() is not None

    return a + Derived.extra + Base.extra, Derived().text()


def is_told(a):
    class Owner:
        name = Named()

    return a + 1, Owner().name.told


def escapes_as_an_error(a):
    class Refused(ValueError):
        pass

    b = a + 1
    if b.shape[0] == 2:
        raise Refused("no")
    return b


def dataclass(a):
    import dataclasses

    @dataclasses.dataclass
    class Pair:
        first: int
        second: int = 2

    pair = Pair(1)
    return a * pair.second + pair.first, repr(pair)


LEAVES = [outlives_a_break, registers, is_counted, by_a_metaclass, is_told, dataclass]


@pytest.mark.parametrize("function", LEAVES, ids=lambda function: function.__name__)
def test_cpython_makes_what_others_know_of(function, same, x):
    captured = capture.optimize("eager", strict=True)(function)
    before = len(capture.records())
    for _ in range(2):
        gc.collect()
        expected = function(x)
        gc.collect()
        same(expected, captured(x))
    seen = capture.records()[before:]
    assert any(isinstance(record, capture.GraphRecord) for record in seen)
    assert any(isinstance(record, capture.BreakRecord) for record in seen)


def test_one_that_leaves_is_a_real_class(same, x):
    log = capture.Log()
    captured = capture.optimize("eager", strict=True, log=log)(leaves)
    (one, result), (other, _) = captured(x), captured(x)
    same(result, x * 2 + 1)
    assert type(one) is not type(other)
    assert type(one).__qualname__ == "leaves.<locals>.Held"
    same(one.get(), x * 2)
    assert {record.location.function for record in log.records() if isinstance(record, capture.GraphRecord)} >= {
        "leaves"
    }


def test_one_that_is_hung_on_an_object_is_a_real_class(x):
    kept = []
    captured = capture.optimize("eager", strict=True)(is_hung_on_a_list)
    assert torch.equal(captured(x, kept), x + 1)
    captured(x, kept)
    assert kept[0] is not kept[1]
    assert kept[0].__module__ == __name__


def test_one_of_an_error_that_leaves_is_a_real_class(x):
    with pytest.raises(ValueError, match="no") as raised:
        capture.optimize("eager", options=capture.Options(strict=True, leave_idle=False))(escapes_as_an_error)(x)
    assert raised.type.__name__ == "Refused"
    assert raised.type in ValueError.__subclasses__()


TYPE_PARAMETERS = """
def parameters(a):
    type Pair[T] = tuple[T, T]

    class Box[T]:
        def __init__(self, value: T):
            self.value = value

    def first[U: int](pair: Pair[U]) -> U:
        return pair[0]

    box = Box[int](a + 1)
    return first((box.value, 2)) * 2, Pair.__name__, Box.__type_params__[0].__name__, len(first.__type_params__)
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is new in 3.12")
def test_type_parameters_are_cpythons(same, x):
    namespace = {"__name__": __name__}
    exec(TYPE_PARAMETERS, namespace)
    captured = capture.optimize("eager", strict=True)(namespace["parameters"])
    for _ in range(2):
        same(namespace["parameters"](x), captured(x))
