"""Frames with no tensor within reach cost little: CPython runs them after a few attempts, and loses none that has."""

import typing
from types import ModuleType, SimpleNamespace
from xml.etree.ElementTree import TreeBuilder

import pytest
import torch

import capture
from capture.evaluator.builtin_rules.torch_functions import OPERATIONS
from capture.evaluator.idle_frames import reaches_tensors


def made(source, **names):
    """A function of a module that does not import torch."""
    namespace = {"__name__": "elsewhere", **names}
    exec(compile(source, "/elsewhere.py", "exec"), namespace)
    return namespace["f"]


def captured(function, **options):
    log = capture.Log()
    return capture.optimize("eager", options=capture.Options(strict=True, **options), log=log)(function), log


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
