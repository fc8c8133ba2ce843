"""Handlers of signals that compute: wherever they come in a first step, they find torch as the program left it."""

import contextlib
import itertools
import signal
import sys
import threading

import pytest
import torch

import compile_api


@contextlib.contextmanager
def handled(handler):
    before = signal.signal(signal.SIGUSR1, handler)
    yield
    assert signal.getsignal(signal.SIGUSR1) is handler
    signal.signal(signal.SIGUSR1, before)


@contextlib.contextmanager
def signals(every):
    """One at each so many calls and returns of functions, of Python's and of C's."""
    events = itertools.count(1)

    def count(frame, event, arg):
        if next(events) % every == 0:
            signal.raise_signal(signal.SIGUSR1)

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)


def looks(weight):
    """What a handler may do that keeps a checkpoint, or looks how far training is."""
    with torch.no_grad():
        norm = weight.norm().item()
    with torch.enable_grad():  # a step of a backward in Python, ours as any, runs without
        own = torch.ones(2, requires_grad=True)
        (own * 3).sum().backward()
    return norm, own.grad.tolist(), type(own * 1), own.is_inference()


@pytest.mark.parametrize("every", [61, 97, 499])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_handler_computes_what_it_computes_elsewhere(backend, every):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.LayerNorm(4))
    seen, expected = [], looks(model[0].weight)

    def handler(number, frame):
        count = sys.getprofile()
        sys.setprofile(None)
        seen.append(looks(model[0].weight))
        sys.setprofile(count)

    region = compile_api.compile(model, backend=backend)
    for rows in (2, 3):
        x = torch.randn(rows, 3)
        with handled(handler), signals(every):
            region(x).sum().backward()
        torch.testing.assert_close(region(x), model(x))
    assert len(seen) > 20
    assert set(map(str, seen)) == {str(expected)}
    assert not compile_api.report(region).breaks


def test_a_handler_comes_while_an_operators_fake_is_made():
    seen = []

    @torch.library.custom_op("handlers::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice.register_fake
    def _(x):
        signal.raise_signal(signal.SIGUSR1)
        return torch.empty_like(x)

    with handled(lambda number, frame: seen.append(torch.ones(3).sum().item())):
        assert compile_api.compile(lambda x: twice(x) + 1)(torch.ones(2)).tolist() == [3, 3]
    assert set(seen) == {3.0}


def test_a_handler_calls_what_is_compiled_while_something_else_is():
    norm, seen = compile_api.compile(lambda x: (x.sin() * 2).sum()), []
    expected = (torch.ones(3).sin() * 2).sum()

    def handler(number, frame):
        seen.append(norm(torch.ones(3)))

    with handled(handler), signals(503):
        compile_api.compile(torch.nn.Linear(3, 4))(torch.ones(2, 3)).sum().backward()
    assert len(seen) > 10
    torch.testing.assert_close(seen, [expected] * len(seen))


class TimeIsUp(Exception):
    pass


class TimeIsUpAtOnce(BaseException):
    pass


@pytest.mark.parametrize("which", [1, 2], ids=["before the break", "behind it"])
@pytest.mark.parametrize("error", [TimeIsUp, TimeoutError, TimeIsUpAtOnce, KeyboardInterrupt])
def test_what_a_handler_raises_is_met_by_what_surrounds_the_place(error, which):
    """Where a part behind a break is compiled, it is the function's own ``with`` and ``try`` that are around it."""
    met, lock, compiled = [], threading.Lock(), itertools.count(1)

    def handler(number, frame):
        raise error("time")

    def backend(graph, inputs):
        if next(compiled) == which:
            signal.raise_signal(signal.SIGUSR1)
        return graph.forward

    def program(x):
        try:
            with lock:
                x = x * 2
                print(end="")
                x = x + x.item()
                return x.sin()
        except error as caught:
            met.append((str(caught), caught.__context__, caught.__suppress_context__, lock.locked()))
            return None

    region = compile_api.compile(program, backend=backend)
    with handled(handler):
        if which == 1:  # nothing of the function has happened yet
            with pytest.raises(error):
                region(torch.ones(()))
        else:
            assert region(torch.ones(())) is None
            assert met == [("time", None, False, False)]
    assert not lock.locked()
    assert region(torch.ones(())) == program(torch.ones(()))
