"""What we tell of a slower way, in programs that have warnings as errors: no error, but where a filter names it."""

import warnings

import pytest
import torch

import capture
from capture.informing import Waiting, inform

FACTORS = (1.0, True, "2", 3)


def scaled(x, factor):
    return x * float(factor)


def too_often(monkeypatch):
    return capture.optimize("eager", recompile_limit=1)(scaled)


def too_often_behind_a_break(monkeypatch):
    def function(x, factor):
        capture.graph_break()
        return scaled(x, factor)

    return capture.optimize("eager", recompile_limit=1)(function)


def mistaken(monkeypatch):
    def broken(*args):
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr("capture.entry.hook.translate", broken)
    return capture.optimize("eager")(lambda x, factor: x * float(factor))


def raising_in_vain(monkeypatch):
    def backend(gm, example_inputs):
        def fail(*inputs):
            raise ZeroDivisionError("not in CPython")

        return fail

    return capture.optimize(backend)(lambda x, factor: x * float(factor))


def told_by_a_backend(monkeypatch):
    def backend(gm, example_inputs):
        inform(capture.CaptureWarning("this one is slow"))
        return gm.forward

    return capture.optimize(backend)(lambda x, factor: x * float(factor))


SLOWER = (too_often, too_often_behind_a_break, mistaken, raising_in_vain, told_by_a_backend)


@pytest.mark.parametrize("made", SLOWER)
@pytest.mark.parametrize("category", [Warning, UserWarning])
def test_where_all_warnings_are_errors_ours_are_shown(made, category, monkeypatch):
    function, x = made(monkeypatch), torch.ones(3)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("error", category)
        for factor in FACTORS * 2:
            assert torch.equal(function(x, factor), scaled(x, factor))
    assert {each.category for each in shown} == {capture.CaptureWarning}
    assert len(shown) <= len(FACTORS), "said once of each version"


NAMING = {
    "category": lambda: warnings.filterwarnings("error", category=capture.CaptureWarning),
    "categories": lambda: warnings.simplefilter("error", (capture.CaptureWarning, capture.CaptureWarning)),
    "text": lambda: warnings.filterwarnings("error", message=".*(versions exist|mistake|not in CPython|slow)"),
    "module": lambda: warnings.filterwarnings("error", module="capture"),
}


@pytest.mark.parametrize("made", SLOWER)
@pytest.mark.parametrize("naming", NAMING)
def test_where_a_filter_names_ours_it_is_an_error_of_the_call_once(made, naming, monkeypatch):
    function, x, raised = made(monkeypatch), torch.ones(3), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        NAMING[naming]()
        for factor in [each for each in FACTORS for _ in range(2)]:
            try:
                assert torch.equal(function(x, factor), scaled(x, factor))
                raised.append(None)
            except capture.CaptureWarning as error:
                raised.append(error)
    assert any(raised)
    assert not any(raised[1::2]), "the next call goes on"
    assert all(error.__context__ is None for error in filter(None, raised)), "it is no error within another"


def test_the_callers_line_is_the_place_where_no_other_is_known():
    with pytest.warns(capture.CaptureWarning) as told:
        inform(capture.CaptureWarning("here"))
    assert told[0].filename == __file__


def test_one_that_waits_is_told_when_it_may_be_and_shown_beside_another_error(recwarn):
    warnings.filterwarnings("error", category=capture.CaptureWarning)
    told = Waiting()
    with told.gathered(), Waiting().gathered():  # who waits further out tells
        inform(capture.CaptureWarning("first"))
        inform(capture.CaptureWarning("second"))
    assert told
    with pytest.raises(capture.CaptureWarning, match="first"):
        told.tell()
    with told.gathered():
        inform(capture.CaptureWarning("third"))
        inform(capture.CaptureWarning("quiet"))
    warnings.filterwarnings("ignore", message="quiet")
    told.show()
    assert not told
    assert [str(each.message) for each in recwarn] == ["second", "third"]


def test_a_filter_that_python_reads_is_left_to_it(recwarn):
    warnings.filterwarnings("ignore", message="quiet", category=UserWarning)
    inform(capture.CaptureWarning("quiet"))
    warnings.filterwarnings("always", category=capture.CaptureWarning)
    inform(capture.CaptureWarning("loud"))
    assert [str(each.message) for each in recwarn] == ["loud"]


@pytest.mark.without_graphs("a warning that is an error is raised by CPython", cases=["error"])
@pytest.mark.parametrize("action", ["error", "always"])
def test_what_a_deprecated_context_says_is_said_at_every_call_as_in_eager(action):
    def function(x):
        with torch.cuda.amp.autocast(enabled=False):
            return x + 1

    def told(call):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter(action)
            try:
                call(torch.ones(2))
            except FutureWarning as error:
                return str(error)
        return [(each.category, str(each.message), each.filename, each.lineno) for each in said]

    region = capture.optimize("eager", nopython=action == "always")(function)
    assert [told(region) for _ in range(2)] == [told(function)] * 2
