"""A time limit, by a signal whose handler raises or set by another thread: it ends what it comes upon, and is no
mistake of ours."""

import contextlib
import ctypes
import signal
import threading
import time
import warnings

import pytest
import torch

import aotgrad.tracing.joint
import aotgrad.tracing.recorded_backward
import capture.entry.hook
import capture.entry.translate
import capture.recording.operations
import compile_api
from capture.signals import set_by_a_thread


class TimeIsUp(Exception):
    pass


@pytest.fixture
def rings():
    """How often the bell rang; each time it raises."""
    rung = []

    def ring(number, frame):
        rung.append(number)
        raise TimeIsUp

    before = signal.signal(signal.SIGUSR1, ring)
    yield rung
    assert signal.getsignal(signal.SIGUSR1) is ring
    signal.signal(signal.SIGUSR1, before)


def step(model, x):
    loss = compile_api.compile(model, backend="aot_eager")(x).square().mean()
    loss.backward()


@pytest.mark.parametrize("milliseconds", range(0, 80, 4))
def test_wherever_a_time_limit_comes_in_a_first_step_it_is_raised(rings, milliseconds):
    model, x = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh()), torch.randn(2, 3)
    timer = threading.Timer(milliseconds / 1000, signal.raise_signal, [signal.SIGUSR1])
    raised = 0
    try:
        timer.start()
        step(model, x)
        timer.join()
        time.sleep(0.001)
    except TimeIsUp:
        raised = 1
        timer.join()
    assert raised == len(rings) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(model, x)


def test_a_compiler_of_backward_that_takes_every_exception_for_its_own_takes_no_time_limit(rings):
    def compiled(gm, examples):
        with contextlib.suppress(Exception):
            signal.raise_signal(signal.SIGUSR1)
        return gm

    wanted = compile_api.wiring.forgiving(None, "backward", lambda direction: compiled)
    with pytest.raises(TimeIsUp):
        wanted(None, [])


def interrupt(thread):
    """Raise ``TimeIsUp`` wherever that thread is."""
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TimeIsUp)) == 1


@contextlib.contextmanager
def another_thread():
    over = threading.Event()
    waiting = threading.Thread(target=over.wait)
    waiting.start()
    try:
        yield
    finally:
        over.set()
        waiting.join()


PLACES = [
    (capture.entry.hook, "translate"),
    (capture.recording.operations, "_run"),
    (capture.entry.translate, "_evaluate"),
    (aotgrad.tracing.joint, "_run"),
    (aotgrad.tracing.recorded_backward, "_gradients"),
]


@pytest.mark.parametrize("surrounding", [contextlib.nullcontext, another_thread])
@pytest.mark.parametrize(("module", "name"), PLACES)
def test_another_threads_exception_in_a_first_step_is_raised(module, name, surrounding, monkeypatch):
    model, x = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh()), torch.randn(2, 3)
    real = getattr(module, name)

    def interrupted(*args, **kwargs):
        if due:
            due.clear()
            interrupt(threading.get_ident())
        return real(*args, **kwargs)

    due = [True]  # once: who tries again would not see it
    monkeypatch.setattr(module, name, interrupted)
    with surrounding(), pytest.raises(TimeIsUp):
        step(model, x)
    monkeypatch.undo()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(model, x)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_another_threads_exception_while_a_backend_compiles_is_the_callers(direction):
    def compiler(gm, examples):
        try:
            interrupt(threading.get_ident())
            return 1  # behind a call an interpreter looks for what is pending
        except TimeIsUp as error:
            raise RuntimeError("a compiler that takes it for its own") from error

    if direction == "forward":
        with pytest.raises(TimeIsUp):
            compile_api.compile(lambda x: x.sin(), backend=compiler)(torch.ones(2))
    else:
        with pytest.raises(TimeIsUp):
            compile_api.wiring.forgiving(None, "backward", lambda direction: compiler)(None, [])


def test_what_instructions_raise_is_no_other_threads():
    def says_nothing():
        raise TimeIsUp

    for raising in (says_nothing, lambda: int("x"), lambda: next(iter(())), lambda: {}["x"], lambda: TimeIsUp().x):
        with pytest.raises((TimeIsUp, ValueError, StopIteration, KeyError, AttributeError)) as raised:
            raising()
        assert not set_by_a_thread(raised.value)
    with pytest.raises(TimeIsUp) as raised:
        interrupt(threading.get_ident())
    assert set_by_a_thread(raised.value)
