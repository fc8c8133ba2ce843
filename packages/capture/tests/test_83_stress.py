"""Many threads, and many functions that come and go.  ``CAPTURE_CYCLES=10000`` for the long run."""

import gc
import linecache
import os
import random
import threading
import weakref
from pathlib import Path
from types import FunctionType

import pytest
import torch

import capture
from capture import _engine

LAYER = torch.nn.Linear(4, 4).eval()
CYCLES = int(os.environ.get("CAPTURE_CYCLES", "300"))


# -- threads -----------------------------------------------------------------------------------------------------


def scaled(x, k):
    return (x * k).sin()


def broken(x, k):
    y = x.cos()
    if y.sum() > 100:  # the graph ends here
        y = y + 1
    return y * k


def raising(x, k):
    try:
        if k == 2:
            raise KeyError(k)
        return x + k
    except KeyError as error:
        return x - error.args[0]


def generating(x, k):
    def parts():
        for i in range(3):
            yield x * i + k

    return sum(parts())


def nested(x, k):
    return INNER(x + k) * 2


def mapped(x, k):
    return torch.stack([row * k for row in x])


def compiling_backend(gm, example_inputs):
    """A backend that runs captured code while it compiles, and in what it compiled."""
    check = capture.optimize("eager", strict=True)(lambda a: a.abs() + 1)
    check(torch.ones(2))

    def run(*inputs):
        check(torch.ones(2))
        return gm.forward(*inputs)

    return run


INNER = capture.optimize("eager", strict=True)(lambda x: x.tanh() + 1)
PROGRAMS = [scaled, broken, raising, generating, nested, mapped]
SHARED = {program: capture.optimize("eager", strict=True)(program) for program in PROGRAMS}


def rounds(seed, count, failures):
    """Functions of this thread's own beside those that all share, at sizes of its choice, with resets meanwhile."""
    choose = random.Random(seed)
    try:
        for _ in range(count):
            program = choose.choice(PROGRAMS)
            backend = choose.choice(["eager", compiling_backend])
            own = capture.optimize(backend, strict=True)(lambda x, k, program=program: program(x, k) + 1)
            for k in (1, 2, 3.0):
                x = torch.randn(choose.choice([2, 3, 4]), 4)
                assert torch.equal(own(x, k), program(x, k) + 1)
                assert torch.equal(SHARED[program](x, k), program(x, k))
            if choose.random() < 0.1:
                capture.reset()
    except BaseException as error:  # noqa: BLE001 - told by the thread that waits
        failures.append(error)


@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")  # the shared functions see more sizes than they may
def test_eight_threads_capture_call_and_reset():
    failures = []
    threads = [threading.Thread(target=rounds, args=(seed, max(CYCLES // 40, 5), failures)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


# -- memory ------------------------------------------------------------------------------------------------------

KEPT = (FunctionType, torch.Tensor, torch.fx.GraphModule)


def cycles(count):
    """How many objects that matter there are afterwards."""
    for _ in range(count):
        capture.optimize("eager", strict=True)(lambda x: x.sin() + 1)(torch.ones(2))
        capture.reset()
    gc.collect()
    kinds = [type(found) for found in gc.get_objects()]  # asking the objects themselves would wake some of them up
    return sum(issubclass(kind, KEPT) or str(kind.__module__).startswith("capture") for kind in kinds)


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_capturing_and_forgetting_leaves_nothing_behind():
    cycles(50)
    before = cycles(50)
    assert cycles(CYCLES) - before < 20


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system does not tell how much memory is used")
def test_memory_does_not_grow():
    cycles(100)
    before = resident_bytes()
    cycles(CYCLES)
    assert resident_bytes() - before < 4 << 20


def test_code_dies_with_its_function():
    def captured():
        def f(x):
            y = x.cos()
            if y.sum() > 100:
                y = y + 1
            return y * 2

        region = capture.optimize("eager", strict=True)(f)
        region(torch.ones(2))
        entries = _engine.entries(f.__code__)
        return [weakref.ref(code) for code in (f, *(entry.code for entry in entries))]

    references = captured()
    gc.collect()
    assert len(references) == 2
    assert [reference() for reference in references] == [None, None]


def test_the_text_of_a_graph_goes_with_it():
    cycles(1)
    before = len(linecache.cache)
    region = capture.optimize("eager", strict=True)(lambda x: x.sin() + 1)
    region(torch.ones(2))
    assert len(linecache.cache) == before + 1
    del region
    capture.reset()
    gc.collect()
    assert len(linecache.cache) == before
