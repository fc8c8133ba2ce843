"""What objects say of themselves, made inside and given from outside: every builtin that asks answers as Python's."""

import collections
import functools
import inspect
import itertools
import operator
import sys
import types
import weakref
from collections import abc

import pytest
import torch

import capture


class Plain:
    pass


class Called:
    def __call__(self):
        return 1


class Heir(Called):
    pass


class Refuses:
    """Defines what C asks for as None."""

    __call__ = None
    __iter__ = None
    __hash__ = None


class OfItsOwn:
    """Special methods of an object count for nothing."""

    def __init__(self):
        self.__call__ = self.__len__ = lambda: 1


class Answers:
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class Meta(type):
    def __call__(cls, *args):
        return super().__call__(*args)

    def __iter__(cls):
        return iter(())


class OfMeta(metaclass=Meta):
    pass


Named = collections.namedtuple("Named", "a b")


def function():
    pass


OBJECTS = {
    "an object": Plain,
    "one with __call__": Called,
    "one that inherits it": Heir,
    "one whose __call__ is None": Refuses,
    "one with a __call__ of its own": OfItsOwn,
    "one that answers for all names": Answers,
    "one of a metaclass": OfMeta,
    "a class": lambda: Plain,
    "a class of a metaclass": lambda: OfMeta,
    "an exception": lambda: ValueError("text"),
    "a function": lambda: function,
    "a lambda": lambda: lambda: 1,
    "a method": lambda: Called().__call__,
    "a partial": lambda: functools.partial(function),
    "a builtin": lambda: len,
    "a bound builtin": lambda: [].append,
    "a bound slot": lambda: (1).__add__,
    "an unbound slot": lambda: int.__add__,
    "a tensor's method": lambda: torch.ones(1).add,
    "a tensor's method in Python": lambda: torch.ones(1).backward,
    "a getter": lambda: operator.itemgetter(0),
    "a generator": lambda: (item for item in ()),
    "an iterator": lambda: iter([]),
    "a count": itertools.count,
    "a list": lambda: [1],
    "a dict": lambda: {1: 2},
    "keys": lambda: {}.keys(),
    "a set": set,
    "a deque": collections.deque,
    "an ordered dict": collections.OrderedDict,
    "a named tuple": lambda: Named(1, 2),
    "a namespace": lambda: types.SimpleNamespace(a=1),
    "None": lambda: None,
    "a number": lambda: 1,
    "a text": lambda: "text",
    "a tensor": lambda: torch.ones(2),
    "a module": torch.nn.ReLU,
    "a context": torch.no_grad,
}

ABSTRACT = tuple(getattr(abc, name) for name in abc.__all__ if name != "ByteString")  # deprecated from 3.12 on
CONCRETE = (type, torch.nn.Module, tuple, types.FunctionType, types.MethodType, types.BuiltinFunctionType)
QUESTIONS = {
    "callable": callable,
    "type": type,
    "abstract classes": lambda value: [isinstance(value, cls) for cls in ABSTRACT],
    "classes": lambda value: [isinstance(value, cls) for cls in CONCRETE],
}


@pytest.mark.parametrize("place", ["made", "given"])
@pytest.mark.parametrize("name", OBJECTS)
def test_questions(name, place):
    make = OBJECTS[name]
    for question, ask in QUESTIONS.items():
        given = make()

        def answer(x, ask=ask, given=given):
            return x + 1, ask(make() if place == "made" else given)

        _, expected = answer(torch.ones(2))
        _, actual = capture.optimize("eager", strict=True)(answer)(torch.ones(2))
        assert actual == expected, question


class Overriding:
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return function.__name__


class LikeOne:
    def __init__(self):
        self.__torch_function__ = None


_OVERRIDES = torch.overrides
OF_TORCH = {
    "is_tensor": torch.is_tensor,
    "is_tensor_like": _OVERRIDES.is_tensor_like,
    "has_torch_function": lambda value: _OVERRIDES.has_torch_function((torch.ones(1), value)),
    "unary": lambda value: _OVERRIDES.has_torch_function_unary(value),
    "variadic": lambda value: _OVERRIDES.has_torch_function_variadic(torch.ones(1), value),
    "an operator": lambda value: torch.max(value) if _OVERRIDES.is_tensor_like(value) else None,
    "a function": lambda value: torch.nn.functional.relu(value) if _OVERRIDES.is_tensor_like(value) else None,
}


@pytest.mark.parametrize("name", OF_TORCH)
def test_what_torch_takes_for_a_tensor(name, x):
    """It was told that nothing but a tensor is like one."""
    given = [Overriding(), Plain(), torch.ones(2), 4, None, "text", [1]]
    given += [] if name in ("an operator", "a function") else [LikeOne(), Overriding]
    for value in given:
        captured = capture.optimize("eager")(lambda value: (OF_TORCH[name](value), x + 1))
        assert str(captured(value)[0]) == str(OF_TORCH[name](value)), value


named = "global"


def evaluated(text):
    frame = sys._getframe(1)
    return eval(text, frame.f_globals, frame.f_locals)


def below(text):
    return evaluated_above(text)


def evaluated_above(text):
    return eval(text, dict(inspect.currentframe().f_back.f_back.f_locals))


@pytest.mark.parametrize("evaluate", [evaluated, below])
def test_a_function_finds_the_variables_of_its_caller(evaluate):
    def f(x):
        named = x + 1  # noqa: F841 (read by those who look)
        found = evaluate("named"), evaluate("sorted(named.shape)")
        return found, x * 2

    x = torch.ones(2)
    log = capture.Log()
    (found, sizes), doubled = capture.optimize("eager", strict=True, log=log)(f)(x)
    assert {record.reason.kind for record in log.records()} == {"frame"}
    assert sizes == [2]
    torch.testing.assert_close((found, doubled), (x + 1, x * 2))


def referred_to(x):
    z = x * 2
    seen = [weakref.ref(z)]
    weakref.finalize(z, seen.append, "ended")
    before = seen[0]() is z
    z = z + 1
    return z, before, seen[0](), seen[1:]


def referred_to_across_a_break(x):
    z = x * 2
    reference = weakref.ref(z)
    capture.graph_break()
    return x + 1, reference() is None


@pytest.mark.parametrize("f", [referred_to, referred_to_across_a_break])
def test_weak_references_to_tensors_end_as_in_eager(f):
    log = capture.Log()
    captured = capture.optimize("eager", strict=True, log=log)(f)
    (result, *found), (expected, *like) = captured(torch.ones(2)), f(torch.ones(2))
    assert [record.reason.kind for record in log.records()] == ["weak reference"]
    assert torch.equal(result, expected)
    assert found == like


BOUND = {
    "a tensor's": "w.mul_",
    "one of Python, a tensor's": "w.register_hook",
    "a size's": "w.shape.numel",
    "a list's": "items.append",
    "a dict's": "{}.get",
    "a string's": "'a'.join",
    "a number's": "(3).bit_length",
    "a set's": "{1}.add",
    "a generator's": "(i for i in items).send",
    "a list's length": "items.__len__",
    "a heir's": "Heirs(items).append",
}
ASKED = [
    *("__name__", "__qualname__", "__module__", "__doc__", "__text_signature__", "__class__"),
    *("__self__", "__func__", "__objclass__", "__get__", "__code__", "__wrapped__", "__dict__", "nothing"),
]


class Heirs(list):
    pass


@pytest.mark.parametrize("method", BOUND)
@pytest.mark.parametrize("name", ASKED)
def test_a_bound_method_has_the_attributes_that_it_has_in_python(method, name):
    """Of the descriptor that it was made of it has not all, and some of its own."""
    text = f"""def function(w, items):
    method = {BOUND[method]}
    try:
        found = method.{name}
    except AttributeError as error:
        found = str(error)
    known = found is w or found is items
    return w * 2, known, hasattr(method, "{name}"), found if isinstance(found, (str, type)) else found is None
"""
    scope = {"Heirs": Heirs}
    exec(text, scope)
    captured = capture.optimize("eager", strict=True, nopython=True)(scope["function"])
    assert str(captured(torch.ones(2), [1])) == str(scope["function"](torch.ones(2), [1]))


@pytest.mark.parametrize("method", ["mul_", "unsqueeze_"])
def test_a_decorated_method_of_a_tensor(method):
    """What a decorator copies of a function, a method in C has in part."""

    def function(w):
        torch.no_grad()(getattr(w, method))(0)
        return w + 1

    w, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    assert torch.equal(capture.optimize("eager", strict=True)(function)(w), function(other))
    assert torch.equal(w, other)
