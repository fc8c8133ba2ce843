"""Captured code that is called, or compiled, where programs seldom do so: in finalizers, in handlers of signals, in a
forked child, while somebody traces; and compiling that is interrupted."""

import cProfile
import functools
import gc
import os
import signal
import sys
import threading
import time
import weakref

import pytest
import torch

import capture


@torch.library.custom_op("odd_places::interrupted", mutates_args=())
def interrupted(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


INTERRUPTS = []


@interrupted.register_fake
def _(x):
    """Python that C++ calls while a frame is evaluated."""
    if INTERRUPTS:
        signal.raise_signal(INTERRUPTS.pop())
    return torch.empty_like(x)


def strict(function, backend="eager"):
    return capture.optimize(backend, strict=True)(function)


def library_state():
    modes = torch._C._len_torch_dispatch_stack(), torch._C._len_torch_function_stack()
    return modes, torch.is_grad_enabled(), gc.isenabled(), signal.getsignal(signal.SIGINT)


def test_an_interrupt_waits_for_the_next_instruction(x):
    def program(a, steps):
        b = interrupted(a.sin())
        steps.append("after")
        return b + 1

    region, steps, before = strict(program), [], library_state()
    INTERRUPTS.append(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        region(x, steps)
    assert library_state() == before
    assert steps == []
    assert torch.equal(region(x, steps), x.sin() + 1)


def test_an_interrupt_during_the_last_instruction_loses_no_version(x):
    log = capture.Log()
    region = capture.optimize("eager", strict=True, log=log)(lambda a: interrupted(a))
    INTERRUPTS.append(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        region(x)
    for _ in range(2):
        assert torch.equal(region(x), x)
    assert sum(isinstance(record, capture.GraphRecord) for record in log.records()) == 1


def test_a_backend_is_interrupted_at_once(x):
    reached = []

    def backend(gm, inputs):
        if not reached:
            reached.append("before")
            signal.raise_signal(signal.SIGINT)
            reached.append("after")
        return gm.forward

    region = strict(lambda a: a.sin() + 1, backend)
    with pytest.raises(KeyboardInterrupt):
        region(x)
    assert reached == ["before"]
    assert torch.equal(region(x), x.sin() + 1)


class TimeIsUp(Exception):
    pass


def out_of_time(number, frame):
    raise TimeIsUp


class Limit:
    def __call__(self, number, frame):
        raise TimeIsUp


@pytest.fixture(params=[out_of_time, Limit(), functools.partial(out_of_time)], ids=["function", "object", "partial"])
def time_limit(request):
    before = signal.signal(signal.SIGUSR1, request.param)
    yield request.param
    assert signal.getsignal(signal.SIGUSR1) is request.param
    signal.signal(signal.SIGUSR1, before)


def test_what_a_handler_raises_while_a_frame_is_evaluated_is_the_programs(x, time_limit):
    region = capture.optimize("eager")(lambda a: interrupted(a.sin()) + 1)
    INTERRUPTS.append(signal.SIGUSR1)
    with pytest.raises(TimeIsUp):
        region(x)
    assert torch.equal(region(x), x.sin() + 1)


@pytest.mark.parametrize("careless", [False, True])
def test_what_a_handler_raises_while_a_backend_compiles_is_the_programs(x, time_limit, careless):
    """Also where the backend takes every exception for its own mistake."""
    numbers = [signal.SIGUSR1]

    def backend(gm, inputs):
        try:
            while numbers:
                signal.raise_signal(numbers.pop())
        except Exception:
            if not careless:
                raise
        return gm.forward

    region = capture.optimize(backend)(lambda a: a.sin() + 1)
    with pytest.raises(TimeIsUp):
        region(x)
    assert torch.equal(region(x), x.sin() + 1)


def test_what_a_handler_raises_while_a_graph_runs_is_the_programs(x, time_limit):
    numbers, runs = [], []

    def backend(gm, inputs):
        def run(*args):
            runs.append(1)
            while numbers:
                signal.raise_signal(numbers.pop())
            return gm.forward(*args)

        return run

    region = capture.optimize(backend)(lambda a: a.sin() + 1)
    region(x)
    numbers.append(signal.SIGUSR1)
    with pytest.raises(TimeIsUp):
        region(x)
    assert torch.equal(region(x), x.sin() + 1)
    assert len(runs) == 3


def test_interrupts_at_any_moment_leave_everything_as_it_was(x):
    model = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(8)))
    strict(model)(x)  # what is imported the first time takes no part
    before, expected = library_state(), model(x)
    for wait in range(40):
        region = strict(model)
        timer = threading.Timer(wait / 2000, signal.raise_signal, [signal.SIGINT])
        try:
            timer.start()
            region(x)
            timer.join()
            time.sleep(0.001)
        except KeyboardInterrupt:
            timer.join()
        assert library_state() == before
        assert torch.equal(region(x), expected)


def test_a_handler_of_a_signal_calls_captured_code_while_a_frame_is_evaluated(x):
    inner, answers = strict(lambda a: a.cos() * 2), []
    before = signal.signal(signal.SIGUSR1, lambda *_: answers.append(inner(x)))
    try:
        INTERRUPTS.append(signal.SIGUSR1)
        assert torch.equal(strict(lambda a: interrupted(a.sin()) + 1)(x), x.sin() + 1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert [torch.equal(answer, x.cos() * 2) for answer in answers] == [True]


def test_captured_code_in_finalizers_while_a_backend_compiles(x):
    inner, answers = strict(lambda a: a.cos() * 2), []

    class Ends:
        def __del__(self):
            answers.append(inner(x))

    def backend(gm, inputs):
        Ends()
        reference = weakref.ref(end := Ends(), lambda _: answers.append(inner(x)))
        del end
        return gm.forward if reference() is None else None

    assert torch.equal(strict(lambda a: a.sin() + 1, backend)(x), x.sin() + 1)
    assert len(answers) == 3
    assert all(torch.equal(answer, x.cos() * 2) for answer in answers)


def test_a_function_that_goes_while_it_is_compiled(x):
    held = {}

    def backend(gm, inputs):
        held.clear()
        gc.collect()
        return gm.forward

    held["region"] = strict(lambda a: a.sin() + 1, backend)
    assert torch.equal(held["region"](x), x.sin() + 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_is_not_kept_waiting_by_what_another_thread_compiled(x):
    compiling, go_on = threading.Event(), threading.Event()

    def backend(gm, inputs):
        if threading.current_thread() is not threading.main_thread():
            compiling.set()
            go_on.wait(60)
        return gm.forward

    region = strict(lambda a: a.sin() + 1, backend)
    thread = threading.Thread(target=region, args=(x,))
    thread.start()
    assert compiling.wait(60)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # whose handler ends tests here, not there
        signal.alarm(30)
        right = torch.equal(region(x), x.sin() + 1) and gc.isenabled()
        os._exit(0 if right else 1)
    _, status = os.waitpid(child, 0)
    go_on.set()
    thread.join()
    assert status == 0


@pytest.mark.parametrize("watch", ["settrace", "setprofile", "cProfile"])
def test_compiling_and_calling_while_somebody_looks_on(x, watch):
    profile, region, names = cProfile.Profile(), strict(lambda a: a.sin() + 1), set()

    def look(frame, event, argument):
        names.add(frame.f_code.co_name)
        return look

    before = sys.gettrace(), sys.getprofile()
    try:
        profile.enable() if watch == "cProfile" else getattr(sys, watch)(look)
        answers = [region(x) for _ in range(2)]
    finally:
        profile.disable()
        sys.settrace(before[0])
        sys.setprofile(before[1])
    assert all(torch.equal(answer, x.sin() + 1) for answer in answers)
    assert watch == "cProfile" or "<lambda>" in names
