"""``except*`` and groups of exceptions: evaluated where they stay inside, CPython's own where they leave."""

import traceback

import pytest
import torch

import capture


class Counted(ExceptionGroup):
    def __new__(cls, message, exceptions, code):
        made = super().__new__(cls, message, exceptions)
        made.code = code
        return made

    def derive(self, exceptions):
        return Counted(self.message, exceptions, self.code + 1)


class Tagged(ValueError):
    def __init__(self, tag):
        super().__init__("tagged", tag)
        self.tag = tag


def both():
    return ExceptionGroup("both", [ValueError(1), TypeError("t"), ExceptionGroup("inner", [KeyError("k"), Tagged(3)])])


def shape(error):
    if isinstance(error, BaseExceptionGroup):
        return type(error).__name__, error.message, [shape(member) for member in error.exceptions]
    return type(error).__name__, error.args


def clauses(a):
    seen = []
    try:
        a = a + 1
        raise both()
    except* ValueError as group:
        seen.append(shape(group))
        a = a * 2
    except* (KeyError, TypeError) as group:
        seen.append(shape(group))
        a = a - 1
    return a, seen


def nothing_raised(a):
    try:
        a = a + 1
    except* ValueError:
        a = a * 0
    else:
        a = a * 3
    finally:
        a = a - 1
    return a


def naked(a):
    try:
        raise Tagged(1)
    except* ValueError as group:
        a = a + 1
        found = shape(group), group.exceptions[0].tag, group.__traceback__, group.__cause__
    return a, found


def naked_unmatched(a):
    try:
        try:
            raise KeyError("k")
        except* ValueError:
            a = a * 0
    except KeyError as error:
        return a + 1, error.args


def rest_goes_on(a):
    try:
        try:
            raise both()
        except* ValueError:
            a = a + 1
    except ExceptionGroup as group:
        return a * 2, shape(group)


def raised_again(a):
    try:
        try:
            raise both()
        except* ValueError:
            a = a + 1
            raise
        except* KeyError:
            a = a * 2
    except ExceptionGroup as group:
        return a, shape(group)


def raised_anew(a):
    try:
        try:
            raise both()
        except* ValueError as group:
            a = a + 1
            raise RuntimeError("new") from group
        except* KeyError:
            a = a * 2
            raise IndexError("index")
    except ExceptionGroup as group:
        new, index, left = group.exceptions
        causes = shape(new.__cause__), shape(new.__context__), index.__cause__, shape(index.__context__)
        return a, shape(group), causes, left.__suppress_context__


def raised_by_name(a):
    try:
        try:
            raise both()
        except* TypeError as group:
            raise group
    except ExceptionGroup as group:
        return a + 1, shape(group)


def one_new_alone(a):
    try:
        try:
            raise ExceptionGroup("one", [ValueError(1)])
        except* ValueError:
            raise KeyError("instead")
    except Exception as error:  # noqa: BLE001 - the test is about it
        return a + 1, shape(error), shape(error.__context__)


def naked_then_another(a):
    try:
        try:
            raise ValueError(1)
        except* ValueError:
            raise KeyError("instead")
    except BaseException as error:  # noqa: BLE001 - the test is about it
        return a + 1, shape(error), shape(error.__context__)


def methods(a):
    group = both()
    group.add_note("noted")
    match, rest = group.split(ValueError)
    by_question = group.subgroup(lambda error: isinstance(error, KeyError))
    nothing, everything = group.split((OSError,))
    members = [shape(each) for each in (match, rest, by_question, group.derive([OSError(5)]))]
    same = everything is group, nothing, match.__notes__, match.__notes__ is rest.__notes__
    return a + 1, members, same, str(group), repr(group), group.subgroup(OSError), type(group.exceptions)


def derived(a):
    group = Counted("counted", [ValueError(1), KeyError(2)], 7)
    match, rest = group.split(ValueError)
    return a + match.code, type(match).__name__, rest.code, shape(rest), len(group.args)


def kinds(a):
    plain, base = BaseExceptionGroup("p", [ValueError()]), BaseExceptionGroup("b", [KeyboardInterrupt()])
    return a + 1, type(plain).__name__, type(base).__name__, isinstance(base, Exception)


def in_a_callee(a):
    def callee(b):
        raise ExceptionGroup("callee", [ValueError(b.shape[0]), TypeError()])

    try:
        callee(a)
    except* TypeError:
        a = a + 1
    except* ValueError as group:
        a = a * group.exceptions[0].args[0]
    return a


def returns_and_loops(a):
    for kind in (ValueError, KeyError, OSError):
        try:
            if kind is OSError:
                continue
            raise kind(1)
        except* ValueError:
            a = a + 1
        except* KeyError:
            a = a * 2
    return a


def refused(a):
    seen = []
    for catch in (ExceptionGroup, (ValueError, ExceptionGroup), 3, (ValueError, 3)):
        try:
            try:
                raise ValueError(1)
            except* catch:
                a = a * 0
        except TypeError as error:
            seen.append(str(error))
    return a + 1, seen


WHOLE = [
    clauses,
    nothing_raised,
    naked,
    naked_unmatched,
    rest_goes_on,
    raised_again,
    raised_anew,
    raised_by_name,
    one_new_alone,
    naked_then_another,
    methods,
    derived,
    kinds,
    in_a_callee,
    returns_and_loops,
    refused,
]


@pytest.mark.parametrize("function", WHOLE, ids=lambda function: function.__name__)
def test_what_stays_inside_is_one_graph(function, check, x):
    check(function, x)


def leaves_with_the_rest(a):
    a = a + 1
    try:
        raise both()
    except* ValueError:
        a = a * 2
    return a


def leaves_with_new_ones(a):
    b = a * 2
    try:
        raise both() from OSError("cause")
    except* ValueError as group:
        b = b + 1
        raise RuntimeError("new") from group
    except* TypeError:
        raise
    return b


def leaves_from_a_handler(a):
    b = a * 2
    try:
        raise KeyError("first")
    except KeyError:
        raise ExceptionGroup("second", [ValueError(1)]) from None
    return b


def collected(a):
    errors = []
    for kind in (ValueError, KeyError):
        try:
            a = a + 1
            raise kind(3)
        except Exception as error:  # noqa: BLE001 - the test is about it
            errors.append(error)
    raise ExceptionGroup("collected", errors)


def told(error, inner=True):
    """The whole of an exception, but for the traceback of the one that leaves, which shows each piece."""
    if error is None:
        return None
    frames = [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)] if inner else []
    links = told(error.__cause__), told(error.__context__), error.__suppress_context__
    members = [told(member) for member in getattr(error, "exceptions", ())]
    return type(error), shape(error), frames, links, members, getattr(error, "__notes__", None)


def outcome(function, *args):
    try:
        return function(*args)
    except BaseException as error:  # noqa: BLE001 - the test is about it
        return told(error, inner=False)


@pytest.mark.parametrize("function", [leaves_with_the_rest, leaves_with_new_ones, leaves_from_a_handler, collected])
def test_what_leaves_is_cpythons(function, same, x):
    captured = capture.optimize("eager", strict=True)(function)
    before = len(capture.records())
    for _ in range(2):
        same(outcome(function, x), outcome(captured, x))
    assert any(isinstance(record, capture.GraphRecord) for record in capture.records()[before:])


@pytest.mark.parametrize("function", WHOLE, ids=lambda function: function.__name__)
def test_a_break_in_every_place(function, same, x, monkeypatch):
    """The same with ``shape`` and arithmetic left to CPython: breaks within ``except*`` clauses."""
    broken = capture.disable(shape)
    monkeypatch.setitem(function.__globals__, "shape", broken)
    captured = capture.optimize("eager", strict=True)(function)
    for _ in range(2):
        same(function(x), captured(x))


def test_a_break_in_a_clause(check, x):
    def handle(a):
        try:
            a = a + 1
            raise both()
        except* ValueError as group:
            print(end="")
            a = a * 2
            names = [type(each).__name__ for each in group.exceptions]
        except* (TypeError, KeyError):
            a = a - 1
        return a * 3, names

    check(handle, x, graphs=2, breaks=1)


def test_a_real_group_is_split_without_a_break(check, x):
    def real(a, group):
        try:
            raise group
        except* ValueError as matched:
            a = a * len(matched.exceptions)
        except* (TypeError, KeyError) as matched:
            a = a - len(matched.exceptions)
        return a

    check(real, x, ExceptionGroup("g", [ValueError(1), KeyError(2), ExceptionGroup("inner", [TypeError()])]))
    captured = capture.optimize("eager", strict=True)(real)
    for group in (both(), ExceptionGroup("g", [ValueError(1), ValueError(2)]), ExceptionGroup("k", [KeyError()])):
        assert torch.equal(captured(x, group), real(x, group))
