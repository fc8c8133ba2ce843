"""Frames that compute no tensor are left to CPython, under the guards that were found for them.

Those with no tensor within reach cost little: CPython runs them after a few attempts, and loses none that has.
"""

import typing
from types import ModuleType, SimpleNamespace
from xml.etree.ElementTree import TreeBuilder

import pytest
import torch

import capture
from capture import _engine
from capture.evaluator.builtin_rules.torch_functions import OPERATIONS
from capture.evaluator.idle_frames import reaches_tensors


def captured(function, **options):
    log = capture.Log()
    return capture.optimize("eager", options=capture.Options(strict=True, **options), log=log)(function), log


def codes(region):
    return [entry.code for entry in _engine.entries(region.function.__code__)]


def test_a_frame_without_tensors_runs_itself():
    region, log = captured(lambda a, *rest, scale=1: [a * scale, *rest])
    assert region(2, 3, scale=4) == [8, 3]
    assert codes(region) == [None]
    assert log.records() == ()


def test_a_call_that_computes_is_captured_after_calls_that_do_not(x):
    region, log = captured(lambda a, on: a.sin() if on else a)
    assert region(x, False) is x
    assert torch.equal(region(x, True), x.sin())
    assert region(x, False) is x
    assert [type(record) for record in log.records()] == [capture.GraphRecord]
    assert [code is None for code in codes(region)].count(True) == 1


def test_arithmetic_on_numbers_alone_is_no_graph():
    region, log = captured(lambda n: n * 2 + 1)
    assert [region(n) for n in (3, 4, 5, 6)] == [7, 9, 11, 13]
    assert log.records() == ()


def test_what_varies_in_vain_is_no_warning():
    region, log = captured(lambda text: text + "!")
    assert [region(str(n)) for n in range(12)] == [f"{n}!" for n in range(12)]
    assert [record.reason.kind for record in log.records()] == ["idle"]


@pytest.mark.without_graphs("an idle frame is left to CPython")
def test_an_exception_is_raised_by_the_frame_itself():
    region, _ = captured(lambda table, key: table[key])
    for _ in range(2):
        with pytest.raises(KeyError) as caught:
            region({}, "missing")
        assert caught.traceback[-1].frame.code.raw is region.function.__code__
    assert codes(region) == [None]


@pytest.mark.without_graphs("an idle frame is left to CPython")
def test_what_an_idle_frame_calls_is_not_looked_at():
    region, _ = captured(lambda n: sum(helper(i) for i in range(n)))
    region(3)
    before = _engine.counters()["frames"]
    assert region(3) == 6
    assert _engine.counters()["frames"] == before + 1


def helper(i):
    return i * 2


def test_a_long_loop_without_tensors_is_left_to_cpython(x):
    def play(a):
        total = 0
        for i in range(50_000):
            total += i
        return finish(a, total)

    def finish(a, total):
        return a + total

    region, log = captured(play)
    assert torch.equal(region(x), play(x))
    kinds = [record.reason.kind if hasattr(record, "reason") else type(record) for record in log.records()]
    assert kinds == ["idle", capture.GraphRecord]


# -- what is within reach of a frame, and what it costs to find out ---------------------------------------------------


def made(source, **names):
    """A function of a module that does not import torch."""
    namespace = {"__name__": "elsewhere", **names}
    exec(compile(source, "/elsewhere.py", "exec"), namespace)
    return namespace["f"]


def graphs(log):
    return [record for record in log.records() if isinstance(record, capture.GraphRecord)]


class OnlyTwoSlots:
    __slots__ = ("left", "right")


REACHING = {
    "a tensor": ("def f(a): pass", torch.ones(1)),
    "a list of models": ("def f(a): pass", [0, torch.nn.ReLU()]),
    "an object that holds a dict": ("def f(a): pass", SimpleNamespace(batch={"x": torch.ones(1)})),
    "a method": ("def f(a): pass", torch.nn.ReLU().forward),
    "a local import": ("def f(a):\n    import torch", None),
}


@pytest.mark.parametrize(("source", "arg"), REACHING.values(), ids=REACHING)
def test_what_reaches_tensors(source, arg):
    assert reaches_tensors(made(source), (arg,))


@pytest.mark.parametrize(
    "value",
    [torch, torch.sin, torch.nn.functional.gelu, torch.nn.Linear, torch.ones(1)],
    ids=lambda value: type(value).__name__,
)
def test_global_names_that_reach_tensors(value):
    assert reaches_tensors(made("def f(): pass", value=value), ())


@pytest.mark.parametrize("value", [typing.Optional, ModuleType, len, str], ids=str)
def test_what_torchs_modules_import_is_no_operation(value):
    assert id(value) not in OPERATIONS
    assert not reaches_tensors(made("def f(): pass", value=value), ())


def test_a_closure_reaches_what_it_holds():
    held = torch.nn.ReLU()
    assert reaches_tensors(made("def outer(held):\n    def g(): held\n    return g\nf = outer(held)", held=held), ())


def test_looking_passes_over_the_empty_places_of_a_list_in_c():
    assert not reaches_tensors(made("def f(a): pass"), (TreeBuilder(),))  # its stack has twenty of them


def test_looking_runs_nothing_of_the_programs():
    class Loud:
        def __getattribute__(self, name):
            raise AssertionError(name)

        __class__ = property(lambda self: 1 / 0)

    assert not reaches_tensors(made("def f(a, b): pass", loud=Loud()), (Loud(), [Loud(), OnlyTwoSlots(), {1: Loud()}]))


def test_a_file_without_tensors_is_left_alone_after_some_instructions():
    region, log = captured(made("def f(n):\n    for i in range(n): pass\n    return n"), idle_instructions=300)
    assert [region(n) for n in (10, 20, 30, 40, 50)] == [10, 20, 30, 40, 50]
    assert [record.reason.kind for record in log.records() if hasattr(record, "reason")] == ["idle"]


def test_a_tensor_is_captured_however_much_was_idle_before():
    region, log = captured(made("def f(a):\n    return a + 1"), idle_instructions=0)
    assert [region(number) for number in (1, 2.5, 3)] == [2, 3.5, 4]
    assert torch.equal(region(torch.ones(2)), torch.full((2,), 2.0))
    assert len(graphs(log)) == 1


def test_what_a_frame_that_is_left_calls_is_captured():
    def model(x):
        return torch.full((2,), float(x)).sin()

    source = "def f(model, seen):\n    print(end='')\n    y = model(2)\n    seen.append(y)\n    return y"
    region, log = captured(made(source))
    seen = []
    assert torch.equal(region(model, seen), torch.full((2,), 2.0).sin())
    assert len(seen) == len(graphs(log)) == 1


def test_what_breaks_without_a_tensor_is_not_taken_to_pieces():
    function = made("def f(n):\n    print(end='')\n    print(end='')\n    return n")
    region, log = captured(function)
    assert [region(n) for n in range(20)] == list(range(20))
    assert [type(record) for record in log.records()] == [capture.FallbackRecord]
    whole, log = captured(function, idle_instructions=None)
    assert whole(1) == 1
    assert capture.BreakRecord in map(type, log.records())
