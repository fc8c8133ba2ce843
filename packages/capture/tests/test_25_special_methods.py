"""Special methods whose answers Python itself would refuse: the error is Python's."""

import abc
import itertools
import operator
import types
import typing

import pytest

import capture


def answers(**methods):
    """A class whose special methods give these."""
    members = {f"__{name}__": (lambda self, *args, given=given: given) for name, given in methods.items()}
    return type("Answers", (), members)


REFUSED = {
    "a truth that is no bool": (bool, answers(bool=1)),
    "a truth that is the object": (operator.not_, type("Self", (), {"__bool__": lambda self: self})),
    "a negative length": (len, answers(len=-1)),
    "a negative length as truth": (bool, answers(len=-1)),
    "a length of text": (len, answers(len="x")),
    "an int of a float": (int, answers(int=1.5)),
    "a float of an int": (float, answers(float=1)),
    "an index of text": (lambda o: [1, 2][o], answers(index="x")),
    "text that is a number": (str, answers(str=1)),
    "a representation that is a number": (repr, answers(repr=2)),
    "a format that is a number": (lambda o: f"{o:>4}", answers(format=3)),
    "a hash that is text": (hash, answers(hash="x")),
}


WITHIN_A_FUNCTION = {"an index of text", "a format that is a number"}
"""Those that a function of their own meets: it breaks, and so does its call."""


@pytest.mark.parametrize("case", REFUSED)
def test_answers_that_python_refuses(check, x, case):
    function, cls = REFUSED[case]
    check(lambda a: (a + 1, function(cls())), x, breaks=2 if case in WITHIN_A_FUNCTION else 1)


ACCEPTED = {
    "truth": (bool, answers(bool=False)),
    "truth of a length": (bool, answers(len=0)),
    "length": (len, answers(len=3)),
    "int by index": (int, answers(index=4)),
    "float by index": (float, answers(index=4)),
    "slices of constants": (lambda o: "abcdef"[o:], answers(index=4)),
    "range": (range, answers(index=4)),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_answers_that_python_takes(check, x, case):
    function, cls = ACCEPTED[case]
    check(lambda a: (a + 1, function(cls())), x)


WRONG_CALLS = {
    "islice": lambda: itertools.islice([1], 1, 2, 3, 4),
    "range of nothing": lambda: range(),
    "range without a step": lambda: range(1, 2, 0),
    "slice of nothing": lambda: slice(),
    "slice of four": lambda: slice(1, 2, 3, 4),
}


@pytest.mark.parametrize("case", WRONG_CALLS)
def test_calls_that_python_refuses(check, x, case):
    # A wrong number of arguments breaks within the lambda and at its call; a wrong value is raised out of the graph.
    check(lambda a: (a + 1, WRONG_CALLS[case]()), x, breaks=0 if case == "range without a step" else 2)


class Reentrant:
    """Gives new lists; asked for the second one, it asks the iterator over itself first."""

    def __init__(self):
        self.count, self.iterator = 0, None

    def __iter__(self):
        return self

    def __next__(self):
        self.count += 1
        return next(self.iterator) if self.count == 2 else [self.count]


def test_pairs_of_an_iterator_that_asks_for_pairs(check, x):
    def play(a):
        source = Reentrant()
        source.iterator = itertools.pairwise(source)
        return a + 1, [next(source.iterator) for _ in range(3)]

    check(play, x)


class Detour:
    __new__ = object.__new__

    def __init__(self, given):
        self.given = given


REFUSED_OPERANDS = {
    "arguments for a new that came by a detour": lambda: Detour(1),
    "no text to format by": lambda: format(3, []),
    "no class": lambda: isinstance(3, 5),
    "no class among several": lambda: isinstance(3, (str, (5,))),
    "a name that is no text": lambda: getattr(itertools, 1),
    "a name that is no text, asked for": lambda: hasattr(3, 1),
    "sum of proxies": lambda: type.__dict__ + type.__dict__,
}


@pytest.mark.parametrize("case", REFUSED_OPERANDS)
def test_operands_that_python_refuses(check, x, case):
    # It breaks within the lambda and at its call; names that are no text raise in the graph's frame.
    check(lambda a: (a + 1, REFUSED_OPERANDS[case]()), x, breaks=0 if "no text" in case and "name" in case else 2)


class Base:
    asked = ()

    def __eq__(self, other):
        Base.asked += ("base",)
        return NotImplemented

    __hash__ = None


class Derived(Base):
    def __eq__(self, other):
        Base.asked += ("derived",)
        return NotImplemented


def test_the_derived_class_is_asked_first(x):
    def play(a, left, right):
        Base.asked = ()
        return left == right, Base.asked

    captured = capture.optimize("eager", options=capture.Options(strict=True, leave_idle=False))(play)
    for operands in ((Base(), Derived()), (Derived(), Base()), (Base(), Base())):
        assert captured(x, *operands) == play(x, *operands)


class Duck(type):
    asked: list = []

    def __instancecheck__(cls, instance):
        Duck.asked.append("instance")
        return hasattr(instance, "quack")

    def __subclasscheck__(cls, subclass):
        Duck.asked.append("subclass")
        return len(Duck.asked)


class Quacking(metaclass=Duck):
    quack = True


def test_a_metaclass_says_what_is_an_instance(x):
    def play(a, thing):
        Duck.asked = []
        return (
            isinstance(thing, (int, Quacking)),
            isinstance(Quacking(), Quacking),
            issubclass(int, Quacking),
            Duck.asked,
        )

    for thing in (Quacking(), 1, "text", Base):
        log = capture.Log()
        assert capture.optimize("eager", strict=True, log=log)(play)(x, thing) == play(x, thing)
        assert [record.reason.kind for record in log.records()] == ["class attribute"]


class Half:
    __match_args__ = ("there", "missing")
    there = 1


class Number(int):
    pass


def test_positional_patterns(check, x):
    def play(a, subject):
        match subject:
            case Half(there, missing):
                return a + 1, there, missing
            case Number(n):
                return a + 2, n
            case Half(there):
                return a + 3, there
        return a

    check(play, x, Half())
    check(play, x, Number(3))


class Summand:
    def __init__(self, log):
        self.log = log

    def __add__(self, other):
        self.log.append("add")
        return NotImplemented

    def __radd__(self, other):
        self.log.append("radd")
        return "reflected"


class Growing(Summand):
    def __iadd__(self, other):
        self.log.append("iadd")
        return NotImplemented


class Overriding(Growing):
    def __radd__(self, other):
        self.log.append("overriding")
        return NotImplemented


def _add_in_place(left, right):
    left += right
    return left


@pytest.mark.parametrize("left", [Summand, Growing, Overriding, list])
@pytest.mark.parametrize("right", [Summand, Growing, Overriding])
@pytest.mark.parametrize("add", [lambda a, b: a + b, _add_in_place])
def test_the_order_in_which_operands_are_asked(x, left, right, add):
    def play(a):
        log = []
        try:
            return add([] if left is list else left(log), right(log)), log
        except TypeError as error:
            return type(error), log

    options = capture.Options(strict=True, leave_idle=False)
    assert capture.optimize("eager", options=options)(play)(x) == play(x)


@typing.runtime_checkable
class Named(typing.Protocol):
    name: str


class Nameless:
    __module__ = None

    def __init__(self, name=None):
        if name is not None:
            self.name = name


def test_protocols_look_at_the_object(check, x):
    """And a class may say anything of where it is from."""
    check(lambda a, thing: (isinstance(thing, Named), a + 1), x, Nameless(), breaks=1)
    check(lambda a: (isinstance(Nameless("n"), Named), isinstance(Nameless(), Named), a + 1), x, breaks=1)
    check(lambda a: (a + 1, issubclass(Nameless, Named)), x, breaks=1)


def test_two_objects_of_one_class_and_a_protocol(x):
    captured = capture.optimize("eager", strict=True)(lambda a, thing: (isinstance(thing, Named), a + 1)[0])
    assert [captured(x, thing) for thing in (Nameless("n"), Nameless(), Nameless("m"))] == [True, False, True]


def test_a_class_that_is_asked_while_it_is_changed(check, x):
    class Hooked(abc.ABC):
        wanted = "foo"

        @classmethod
        def __subclasshook__(cls, other):
            return cls.wanted in vars(other)

    def play(a, wanted):
        Hooked.wanted = wanted
        return isinstance(a, Hooked), issubclass(Nameless, Hooked), a + 1

    check(play, x, "__init__", breaks=1)


class Measured:
    asked: list

    def __iter__(self):
        self.asked.append("iter")
        return iter([1, 2])

    def __len__(self):
        self.asked.append("len")
        raise TypeError

    def __length_hint__(self):
        self.asked.append("hint")
        return NotImplemented


def test_lists_and_tuples_ask_for_a_length_first(check, x):
    def play(a, thing):
        thing.asked = []
        thing.asked.append([list(thing), tuple(thing), [0, *thing], set(thing)])
        return a + 1

    check(play, x, Measured())


class Meeting:
    def __get__(self, instance, owner):
        return "found"


class Vicious:
    there = Meeting()

    def __hash__(self):
        return hash("there")

    def __eq__(self, other):
        Vicious.asked = getattr(Vicious, "asked", 0) + 1
        return False


def test_names_among_objects(x):
    """A look at such a ``__dict__`` runs code of the program, as often as the hash of the name makes it collide."""

    def play(a, thing):
        before = getattr(Vicious, "asked", 0)
        return thing.there, a + 1, Vicious.asked - before

    thing = Vicious()
    thing.__dict__[Vicious()] = 0
    expected = play(x, thing)[::2]
    for _ in range(2):
        assert capture.optimize("eager", strict=True)(play)(x, thing)[::2] == expected


def test_a_bound_method_is_bound_already(check, x):
    class Holder:
        def hold(self):
            return self.a

    def play(a):
        first, second = Holder(), Holder()
        first.a, second.a = a + 1, a + 2
        second.hold = first.hold.__get__(second, Holder)
        plus = (lambda self, b: self.a + b).__get__(first)
        return second.hold(), second.hold.__call__(), type(second.hold) is second.hold.__class__, plus(1)

    check(play, x)


def test_a_module_that_notes_who_looks(x):
    class Noting(types.ModuleType):
        def __getattribute__(self, name):
            seen.append(name)
            return super().__getattribute__(name)

    seen: list = []
    module = Noting("module")
    module.factor = 3

    def play(a):
        return a * module.factor

    captured = capture.optimize("eager", strict=True)(play)
    assert (captured(x) == x * 3).all()
    assert "factor" in seen
    module.factor = 4
    assert (captured(x) == x * 4).all()


class Silent:
    def __getattribute__(self, name):
        raise AssertionError(f"{name} is looked at")


@pytest.mark.parametrize("first", [0, [], None])
def test_what_must_not_be_looked_at_is_not(x, first):
    captured = capture.optimize("eager", strict=True)(lambda a, thing: (a + 1, thing))
    for thing in (first, Silent(), [Silent()], Silent):
        assert captured(x, thing)[1] is thing


@pytest.mark.filterwarnings("ignore:non-string key")
def test_a_class_with_a_member_under_an_object(x):
    class Key:
        def __hash__(self):
            return hash("member")

        def __eq__(self, other):
            made.__bases__ = (Second,)

    class First:
        member = other = "first"

    class Second:
        member = other = "second"

    def play(a):
        nonlocal made
        made = type("Made", (First,), {Key(): 5})
        return made.member, made.other, a + 1

    made = None
    assert capture.optimize("eager", strict=True)(play)(x)[:2] == ("first", "second")
