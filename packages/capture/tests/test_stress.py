"""Many threads, and many functions that come and go."""

import gc
import random
import threading
from types import FunctionType

import torch

import capture

LAYER = torch.nn.Linear(4, 4).eval()


def rounds(seed, shared, failures):
    """Functions of this thread's own beside one that all share, at sizes of its choice, with resets now and then."""
    choose = random.Random(seed)
    try:
        for _ in range(10):

            def own(x, k, seed=seed):
                return (x * k).sin() + seed

            captured = capture.optimize("eager", strict=True)(own)
            for k in (1, 2, 3.0):
                x = torch.randn(choose.choice([2, 3, 4]), 4)
                assert torch.equal(captured(x, k), own(x, k))
                assert torch.equal(shared(x), LAYER(x))
            if choose.random() < 0.1:
                capture.reset()
    except BaseException as error:  # noqa: BLE001 - told by the thread that waits
        failures.append(error)


def test_eight_threads_capture_call_and_reset():
    shared, failures = capture.optimize("eager", strict=True)(LAYER), []
    threads = [threading.Thread(target=rounds, args=(seed, shared, failures)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


KEPT = (FunctionType, torch.Tensor, torch.fx.GraphModule)


def cycles(count):
    """How many objects that matter there are afterwards; fx keeps a line of text for each graph it ever printed."""
    for _ in range(count):
        capture.optimize("eager", strict=True)(lambda x: x.sin() + 1)(torch.ones(2))
        capture.reset()
    gc.collect()
    kinds = [type(found) for found in gc.get_objects()]  # asking the objects themselves would wake some of them up
    return sum(issubclass(kind, KEPT) or str(kind.__module__).startswith("capture") for kind in kinds)


def test_capturing_and_forgetting_leaves_nothing_behind():
    cycles(20)
    before = cycles(20)
    assert cycles(200) - before < 20
