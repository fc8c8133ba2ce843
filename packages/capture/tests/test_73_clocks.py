"""Clocks in captured code: read at the ends of a graph, which a clock between two operations ends."""

import time

import pytest
import torch

import capture


class Timer:
    def __enter__(self):
        self.begun = time.perf_counter()
        return self

    def __exit__(self, *exception):
        self.taken = time.perf_counter() - self.begun


def whole(a):
    begun = time.perf_counter()
    b = (a * 2).sin()
    return b, 0 < time.perf_counter() - begun < 60


def kept(a):
    with Timer() as timer:
        b = a * 2
    return b, 0 < timer.taken < 60, type(timer.taken)


def ends(a):
    begun = time.time()
    first, second = time.monotonic(), time.monotonic()
    b = a + 1
    third, fourth = time.monotonic(), time.monotonic()
    return b, first <= second <= third <= fourth, time.time() >= begun > 1e9


@pytest.mark.parametrize("function", [whole, kept, ends])
def test_the_results_are_right(same, x, function):
    found = capture.explain(function, strict=True)(x)
    same(found.result, function(x))


def stored(a, seen):
    begun = time.perf_counter()
    b = (a * 2).sin()
    seen.append(time.perf_counter() - begun)
    return b


def test_a_function_that_measures_itself_is_one_graph(x):
    seen = []
    found = capture.explain(stored, strict=True)(x, seen)
    assert torch.equal(found.result, (x * 2).sin())
    assert (len(found.graphs), len(found.breaks)) == (1, 0)
    assert 0 < seen[0] < 60


def test_the_graph_is_what_was_measured(x):
    def backend(gm, inputs):
        def slow(*args):
            time.sleep(0.05)
            return gm(*args)

        return slow

    seen = []
    capture.optimize(backend, strict=True)(stored)(x, seen)
    assert seen[0] >= 0.05


def test_a_clock_between_two_operations_ends_the_graph(same, x):
    def parts(a, seen):
        begun = time.perf_counter()
        b = a * 2
        between = time.perf_counter()
        b = b + 1
        seen += [between - begun, time.perf_counter() - between]
        return b

    seen = []
    found = capture.explain(parts, strict=True)(x, seen)
    same(found.result, x * 2 + 1)
    assert len(found.graphs) == 2
    assert {broken.reason.kind for broken in found.breaks} == {"clock"}
    assert all(0 < part < 60 for part in seen)


def test_a_clock_that_meets_a_tensor_is_left_to_cpython(x):
    found = capture.explain(lambda a: a * (time.time() * 0 + 2), strict=True)(x)
    assert torch.equal(found.result, x * 2)
