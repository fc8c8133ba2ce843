"""Settings of the program that are asked for at each miss, and what captured code says."""

import contextlib
import warnings

import pytest
import torch
from typing_extensions import deprecated

import capture
from capture import ProgramSettings


@pytest.fixture
def asked():
    """Sets what the program's settings are."""
    yield lambda **settings: capture.heed(lambda: ProgramSettings(**settings))
    capture.heed(None)


def called(function, *calls, **how):
    captured = capture.optimize(**how)(function)
    return [captured(*each) for each in calls]


def scaled(x, by):
    return x * len(by)


X = torch.ones(2)


def test_recompiling_may_be_an_error_and_capturing_at_first_is_none(asked):
    asked(recompiling_is_an_error=True)
    assert called(scaled, (X, "a"), (X, "a"))[1].sum() == 2
    with pytest.raises(capture.RecompileRefused, match=r"captured again.*expected that by equals 'a'"):
        called(scaled, (X, "a"), (X, "ab"))


def test_the_limit_may_be_an_error_and_another_one(asked):
    asked(limit_is_an_error=True, recompile_limit=2)
    with pytest.raises(capture.RecompileLimitHit, match="2 versions exist already"):
        called(scaled, (X, "a"), (X, "ab"), (X, "abc"))
    called(scaled, (X, "a"), (X, "ab"), (X, "abc"), recompile_limit=3)  # what was given to the function counts


def test_nothing_more_is_captured_once_it_is_switched_off(asked):
    graphs = []
    captured = capture.optimize(lambda gm, inputs: graphs.append(gm) or gm.forward)(scaled)
    captured(X, "a")
    asked(disabled=True)
    captured(X, "ab")
    asked()
    assert len(graphs) == 1
    captured(X, "ab")
    assert len(graphs) == 2


def failing(gm, inputs):
    raise ValueError("no")


def test_where_a_backend_fails_the_function_may_run_eagerly(asked):
    asked(failures_run_eagerly=True)
    with pytest.warns(capture.CaptureWarning, match=r"ValueError: no \(the function runs uncompiled\)"):
        assert called(lambda x: x + 1, (X,), (X,), backend=failing)[1].sum() == 4
    with pytest.raises(capture.BackendError):
        called(lambda x: x + 1, (X,), backend=failing, nopython=True)
    asked()
    with pytest.raises(capture.BackendError):
        called(lambda x: x + 1, (X,), backend=failing)


def test_what_may_be_said_later_breaks_no_graph(asked, capsys):
    def talking(x):
        y = x + 1
        print("between", 3)
        print(y)
        return y * 2

    asked(said_later=(print,))
    for each in called(talking, (X,), (X,), nopython=True):
        assert each.sum() == 8
    assert capsys.readouterr().out == "between 3\ntensor([2., 2.])\n" * 2


@deprecated("old news", category=FutureWarning)
def old(x):
    return x + 1


def test_a_deprecation_notice_is_given_at_every_call_and_breaks_no_graph():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        called(lambda x: old(x) * 2, (X,), (X,), nopython=True)
    assert [(each.category, str(each.message), each.filename) for each in said] == [
        (FutureWarning, "old news", __file__)
    ] * 2


@pytest.mark.without_graphs("a warning that is an error is raised by CPython")
@pytest.mark.filterwarnings("error")
def test_a_deprecation_notice_that_is_an_error_is_raised():
    with pytest.raises(FutureWarning, match="old news"):
        called(lambda x: old(x) * 2, (X,))


def broken(x):
    capture.graph_break()
    return x + 1


@capture.error_on_graph_break(True)
def broken_in_a_decorator(x):
    return broken(x)


def broken_inside(x):
    with capture.error_on_graph_break(True):
        return broken(x)


def breaks_after(x):
    with capture.error_on_graph_break(True):
        y = x + 1
    return broken(y)


def breaks_where_it_may(x):
    with capture.error_on_graph_break(True):
        y = x + 1
        with capture.error_on_graph_break(False):
            return broken(y)


@pytest.mark.parametrize("function", [broken_inside, lambda x: broken_in_a_decorator(x) * 2])
def test_a_break_is_an_error_where_the_program_says_so(function):
    with pytest.raises(capture.Unsupported, match="graph_break"):
        called(function, (X,))


@pytest.mark.parametrize("function", [breaks_after, breaks_where_it_may])
def test_a_break_elsewhere_is_a_record(function):
    assert called(function, (X,), (X,))[1].sum() == 6


def test_breaks_are_errors_of_what_is_called_within(asked):
    with contextlib.suppress(capture.Unsupported), capture.error_on_graph_break(True):
        called(broken, (X,))
        pytest.fail("the break was no error")
    assert called(broken, (X,))[0].sum() == 4


class Doubles(torch.nn.Module):
    def forward(self, x):
        return x * 2


class Methods:
    def disabled(self, x):
        return x * 2

    def captured(self, x):
        return x * 3


Methods.disabled = capture.disable(Methods.disabled, "because")
Methods.captured = capture.optimize()(Methods.captured)
BEFORE = capture.disable(lambda x: x + 1, "because")
ALONE = capture.disable_alone(lambda x: x + 2, "because")

LEFT_OUT = {
    "inline": lambda x: capture.disable(old, "because")(x),
    "inline, alone": lambda x: capture.disable_alone(old, "because")(x),
    "inline, a module": lambda x: capture.disable(Doubles().__call__, "because")(x),
    "before": lambda x: BEFORE(x),
    "before, alone": lambda x: ALONE(x),
    "a method": lambda x: Methods().disabled(x),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_disabled_is_named_with_the_programs_reason(name):
    with pytest.raises(capture.Unsupported, match="` is disabled: because"):
        called(LEFT_OUT[name], (X,), nopython=True)


def test_a_stance_that_is_taken_in_captured_code_is_named():
    with pytest.raises(capture.Unsupported, match="a stance is taken, which concerns the whole process"):
        called(lambda x: (capture.set_stance("default"), x + 1), (X,), nopython=True)


def test_a_captured_method_is_part_of_what_calls_it():
    log = capture.Log()
    captured = capture.optimize(nopython=True, log=log)(lambda x: Methods().captured(x) + 1)
    assert torch.equal(captured(X), torch.full((2,), 4.0))
    assert len([each for each in log.records() if isinstance(each, capture.GraphRecord)]) == 1


def test_marks_in_captured_code_are_made(check):
    def marking(x):
        capture.mark_dynamic(x, 0)
        capture.mark_static(x, 1)
        return x + 1

    x = torch.ones(3, 4)
    called(marking, (x,), nopython=True)
    assert "_capture_dynamic_dims" in vars(x)
    log = check(marking, torch.ones(3, 4), graphs=1)
    assert not [each for each in log.records() if isinstance(each, capture.RecompileRecord)]
