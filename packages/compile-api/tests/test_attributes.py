"""Attributes of a compiled function are those of the function, as they are: read and set on either."""

import functools
import pickle

import pytest
import torch

import compile_api

BACKENDS = ["eager", "aot_eager", "inductor"]


def counted(function):
    @functools.wraps(function)
    def counting(*args):
        counting.calls += 1
        return function(*args)

    counting.calls = 0
    return counting


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_decorators_counter_is_read_and_reset(backend):
    @compile_api.compile(backend=backend)
    @counted
    def double(x):
        return x * 2

    for _ in range(3):
        double(torch.ones(2))
    assert double.calls == 3
    double.calls = 0
    double(torch.ones(2))
    assert double.calls == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_set_outside_is_what_the_function_reads(backend):
    def scaled(x):
        return x * scaled.factor

    scaled.factor = 1.0
    compiled = compile_api.compile(scaled, backend=backend)
    assert compiled(torch.ones(())) == 1
    compiled.factor = 5.0
    assert compiled(torch.ones(())) == scaled(torch.ones(())) == 5
    scaled.factor = 7.0
    assert compiled(torch.ones(())) == compiled.factor == 7
    del compiled.factor
    assert not hasattr(scaled, "factor")


class Counting:
    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x * self.calls

    def doubled(self):
        return self.calls * 2


def test_objects_that_are_called_keep_their_methods():
    compiled = compile_api.compile(Counting())
    compiled(torch.ones(2))
    assert (compiled.calls, compiled.doubled()) == (1, 2)
    with pytest.raises(AttributeError, match="'Counting' object has no attribute 'nothing'"):
        _ = compiled.nothing
    copied = pickle.loads(pickle.dumps(compiled))
    assert (copied(torch.ones(())), copied.calls, compiled.calls) == (2, 2, 1)


@pytest.mark.without_graphs("what is disabled, and what only makes a cached result, has none", cases="some")
def test_caches_partials_and_what_is_disabled():
    cached = compile_api.compile(functools.lru_cache(None)(lambda n: torch.ones(n)))
    cached(2)
    assert cached.cache_info().misses == 1
    cached.cache_clear()
    assert cached.cache_info().misses == 0
    assert compile_api.compile(functools.partial(torch.mul, other=2)).keywords == {"other": 2}
    assert compile_api.disable(Counting()).doubled() == 0
    counting = Counting()
    method = compile_api.compile(counting.doubled)
    assert (method.__self__, method.__func__) == (counting, Counting.doubled)
    method.note = "a method takes no attributes: what is compiled of it keeps them"
    assert method.note
