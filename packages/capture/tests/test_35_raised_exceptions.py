"""Exceptions that the program keeps after it caught them are the ones that CPython raises."""

import collections
import math
import traceback

import pytest
import torch

import capture


class Plain:
    held = 1


class Child(Plain):
    def missing(self):
        return super().vlue


class Asked:
    def __getattr__(self, name):
        raise AttributeError("not here")


class Slots:
    __slots__ = ("value",)
    shown = 1

    @property
    def only(self):
        return 1


def an_unknown_name():
    return undefined_thing  # noqa: F821


def an_unbound_variable():
    if math is None:
        a = 1
    return a


def an_unknown_import():
    from math import cosinus

    return cosinus


def a_new_attribute():
    Slots().vlue = 1


def a_shown_attribute():
    Slots().shown = 2


def no_setter():
    Slots().only = 1


def no_deleter():
    del Slots().only


def no_such_attribute():
    del Plain().vlue


def one_of_the_class():
    del Plain().held


def an_empty_slot():
    del Slots().value


def raised_while_handling():
    try:
        raise KeyError("k")
    except KeyError:
        return [].missing


RAISES = [
    lambda: Plain().vlue,
    lambda: Plain.vlue,
    lambda: math.cosinus,
    lambda: "a".uper(),
    lambda: [].push(1),
    lambda: (1, 2).frst,
    lambda: len.nme,
    lambda: torch.ones(2).sinn(),
    lambda: torch.nn.ReLU().vlue,
    lambda: getattr(Plain(), "vlue"),
    lambda: object.__getattribute__(Plain(), "vlue"),
    lambda: Asked().vlue,
    lambda: Slots().value,
    lambda: Child().missing(),
    lambda: Child().missing.nme,
    lambda: {}["k"],
    lambda: [][1],
    lambda: int("x"),
    an_unknown_name,
    an_unbound_variable,
    an_unknown_import,
    a_new_attribute,
    a_shown_attribute,
    no_setter,
    no_deleter,
    no_such_attribute,
    one_of_the_class,
    an_empty_slot,
    raised_while_handling,
]


def what_it_raises(function):
    try:
        function()
    except Exception as error:  # noqa: BLE001 - the test is about it
        return error
    return None


def told(error):
    named = {name: getattr(error, name, "none") for name in ("name", "path")}
    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    return type(error), error.args, named, type(getattr(error, "obj", 0)), frames, type(error.__context__)


@pytest.mark.parametrize("function", RAISES, ids=lambda function: function.__name__)
def test_what_is_kept_tells_what_cpythons_tells(function, x):
    def keep(a):
        return a + 1, what_it_raises(function)

    _, actual = capture.optimize("eager", strict=True)(keep)(x)
    assert told(actual) == told(what_it_raises(function))


@pytest.mark.parametrize("function", RAISES, ids=lambda function: function.__name__)
def test_what_is_let_go_says_what_cpythons_says(function, check, x):
    def look(a):
        try:
            function()
        except Exception as error:  # noqa: BLE001 - the test is about it
            return a + 1, type(error).__name__, str(error)
        return a - 1

    check(look, x, graphs=None, breaks=None)


def test_one_that_is_hung_on_an_object_has_its_traceback(x):
    def keep(a, kept):
        try:
            raise ValueError("v")
        except ValueError as error:
            kept.append(error)
        return a + 1

    kept, log = [], capture.Log()
    result = capture.optimize("eager", strict=True, log=log)(keep)(x, kept)
    assert torch.equal(result, x + 1)
    assert [frame.name for frame in traceback.extract_tb(kept[0].__traceback__)] == ["keep"]


def test_one_that_ends_within_the_function_is_no_reason_to_break(check, x):
    def search(a):
        tried = []
        for key in ("a", "b", "c"):
            try:
                {"c": 3}[key]
            except KeyError as error:
                tried.append(error)
        return a * len(tried), [str(error) for error in tried]

    check(search, x)


def test_a_part_of_a_package_is_imported_where_the_program_does(check, x):
    def first_import(a):
        from wsgiref import util

        return a + 1, util.__name__

    check(first_import, x)


def test_a_chain_of_contexts_that_the_program_closed(check, x):
    def closes(a):
        try:
            try:
                raise ValueError(1)
            except ValueError as error:
                error.__context__ = error
                raise TypeError(2)
        except TypeError as raised:
            return a + 1, type(raised.__context__), raised.__context__.__context__ is raised.__context__

    check(closes, x)


def test_a_question_about_an_exception_of_the_evaluation_is_no_end_of_the_frame(x):
    def double(a):
        return a * 2

    def asks(a):
        try:
            math.undefined
        except AttributeError as error:
            name = error.name
        return double(a), name

    log = capture.Log()
    result, name = capture.optimize("eager", strict=True, log=log)(asks)(x)
    assert torch.equal(result, x * 2)
    assert name == "undefined"
    assert any(isinstance(record, capture.GraphRecord) for record in log.records())


@pytest.mark.parametrize("items", [[1], (1,), torch.Size([1]), collections.deque([1]), torch.ones(2).max(0)])
def test_an_item_that_is_not_there(items):
    def take(x):
        try:
            return x + items[9]
        except IndexError as error:
            return x * 2, str(error)

    assert capture.optimize()(take)(torch.ones(1)) == take(torch.ones(1))
