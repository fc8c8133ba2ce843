"""Torch's contexts that live on over a break, or behind the function, in whatever holds them.

VALUES_WHOLE=1 runs all kinds with all holders.
"""

import contextlib
import itertools
import os
import random

import pytest
import torch

import capture

KINDS = {
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "set_grad_enabled": lambda: torch.set_grad_enabled(False),
    "inference_mode": torch.inference_mode,
    "no inference_mode": lambda: torch.inference_mode(False),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "no autocast": lambda: torch.autocast("cpu", enabled=False),
    "device": lambda: torch.device("meta"),
    "sdpa_kernel": lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
    "record_function": lambda: torch.autograd.profiler.record_function("label"),
    "detect_anomaly": lambda: torch.autograd.set_detect_anomaly(True),
    "nullcontext": contextlib.nullcontext,
}


def modes():
    torch.autocast_increment_nesting()
    depth = torch.autocast_decrement_nesting()
    autocast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), depth
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast, torch.get_default_device()


def all_modes():
    return *modes(), torch.is_anomaly_enabled(), torch.backends.cuda.flash_sdp_enabled()


def seen(x):
    y = x @ x
    return y.requires_grad, y.dtype, y.is_inference(), torch.zeros(1).device, modes()


class Outer:
    """A manager of the program's whose end is a break in some cases, and where exceptions end in others."""

    def __init__(self, how):
        self.how = how

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.how in ("break at the end", "swallowed"):
            capture.graph_break()
        return self.how == "swallowed"


def body(x, how, found):
    found.append(seen(x))
    if how == "break":
        capture.graph_break()
    found.append(seen(x))
    if how in ("swallowed", "raised"):
        raise ValueError(how)


HOW = ("nothing", "break", "break at the end", "swallowed", "raised")


def a_stack(x, kind, how, found):
    with contextlib.ExitStack() as stack:
        stack.enter_context(Outer(how))
        stack.enter_context(kind())
        body(x, how, found)
    found.append(seen(x))


def stacks_in_a_stack(x, kind, how, found):
    with contextlib.ExitStack() as outer, Outer(how):
        outer.enter_context(kind())
        inner = outer.enter_context(contextlib.ExitStack())
        inner.enter_context(torch.enable_grad())
        inner.enter_context(kind())
        body(x, how, found)
    found.append(seen(x))


def closed_within(x, kind, how, found):
    with contextlib.ExitStack() as stack:
        stack.enter_context(Outer(how))
        stack.enter_context(kind())
        found.append(seen(x))
        stack.close()
        body(x, how, found)
    found.append(seen(x))


def popped(x, kind, how, found):
    with contextlib.ExitStack() as stack:
        stack.enter_context(kind())
        later = stack.pop_all()
    with Outer(how), later:
        body(x, how, found)
    found.append(seen(x))


def by_hand(x, kind, how, found):
    context = kind()
    context.__enter__()
    with Outer(how):
        try:
            body(x, how, found)
        finally:
            context.__exit__(None, None, None)
    found.append(seen(x))


def twice(x, kind, how, found):
    context = kind()
    for _ in range(2):
        with Outer(how), context:
            body(x, how, found)
        found.append(seen(x))


def in_a_list(x, kind, how, found):
    contexts = [Outer(how), torch.no_grad(), kind(), kind()]
    for context in contexts:
        context.__enter__()
    try:
        body(x, how, found)
    finally:
        while contexts:
            contexts.pop().__exit__(None, None, None)
    found.append(seen(x))


@contextlib.contextmanager
def managed(kind, how):
    with Outer(how), kind():
        yield


def in_a_generator(x, kind, how, found):
    with managed(kind, how):
        body(x, how, found)
    found.append(seen(x))


def in_a_closure(x, kind, how, found):
    context = kind()

    def leave():
        context.__exit__(None, None, None)

    context.__enter__()
    with Outer(how):
        try:
            body(x, how, found)
        finally:
            leave()
    found.append(seen(x))


async def of_coroutines(x, kind, how, found):
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(Outer(how))
        stack.enter_context(kind())
        body(x, how, found)
    found.append(seen(x))


def in_a_coroutine(x, kind, how, found):
    with contextlib.suppress(StopIteration):
        of_coroutines(x, kind, how, found).send(None)
    found.append(seen(x))


class Switch:
    def on(self, x, kind, how, found):
        self.context = kind()
        self.context.__enter__()
        body(x, how, found)

    def off(self, x, found):
        found.append(seen(x))
        self.context.__exit__(None, None, None)
        found.append(seen(x))


def on_self(x, kind, how, found):
    """The two methods are functions of their own: no frame has both."""
    switch = Switch()
    try:
        capture.optimize("eager")(switch.on)(x, kind, how, found) if found[0] else switch.on(x, kind, how, found)
    except ValueError:
        found.append("raised")
    capture.optimize("eager")(switch.off)(x, found) if found[0] else switch.off(x, found)


def give(x, kind, how, found):
    context = kind()
    context.__enter__()
    found.append(seen(x))
    if how == "break":
        capture.graph_break()
    return context, context.__exit__


def given(x, kind, how, found):
    context, leave = (capture.optimize("eager")(give) if found[0] else give)(x, kind, how, found)
    found.append((type(context), modes()))
    leave(None, None, None)


HOLDERS = (
    *(a_stack, stacks_in_a_stack, closed_within, popped, by_hand, twice, in_a_list),
    *(in_a_generator, in_a_closure, in_a_coroutine),
)
PARTS = (on_self, given)


def outcome(program, kind, how, *, compiled):
    """All that the program saw, twice, and what is in force behind it; which is put back."""
    x, found = torch.ones(2, 2, requires_grad=True), [compiled]
    if compiled and program not in PARTS:
        program = capture.optimize("eager")(program)
    try:
        for _ in range(2):
            try:
                program(x, kind, how, found)
            except Exception as error:  # noqa: BLE001 - whatever comes is the same
                found.append(repr(error))
            found.append(all_modes())
    finally:
        put_back()
    return found[1:]


def put_back():
    torch.set_grad_enabled(True)
    torch.set_autocast_enabled("cpu", False)
    torch.set_default_device(None)
    torch.autograd.set_detect_anomaly(False)


CASES = list(itertools.product((*HOLDERS, *PARTS), KINDS, HOW))
if not os.environ.get("VALUES_WHOLE"):
    CASES = random.Random(0).sample(CASES, 100)


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize(("program", "kind", "how"), CASES, ids=lambda part: getattr(part, "__name__", part))
def test_a_context_that_stays_is_the_one_that_was_entered(program, kind, how):
    expected = outcome(program, KINDS[kind], how, compiled=False)
    assert outcome(program, KINDS[kind], how, compiled=True) == expected
