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


def depth_of_autocast():
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def modes():
    autocast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), depth_of_autocast()
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


@contextlib.contextmanager
def outer(how):
    """The same, as a generator, which no code but CPython's has made: what is entered later goes into an object."""
    try:
        yield
    except ValueError:
        if how != "swallowed":
            raise
    if how in ("break at the end", "swallowed"):
        capture.graph_break()


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
        stack.enter_context(outer(how))
        stack.enter_context(kind())
        body(x, how, found)
    found.append(seen(x))


def stacks_in_a_stack(x, kind, how, found):
    with contextlib.ExitStack() as stack, Outer(how):
        stack.enter_context(kind())
        inner = stack.enter_context(contextlib.ExitStack())
        inner.enter_context(torch.enable_grad())
        inner.enter_context(kind())
        body(x, how, found)
    found.append(seen(x))


def closed_within(x, kind, how, found):
    with contextlib.ExitStack() as stack:
        stack.enter_context(outer(how))
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
        stack.enter_context(outer(how))
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
    """All that the program saw in each of two calls, and what is in force behind it; which is put back."""
    x, found = torch.ones(2, 2, requires_grad=True), [compiled]
    if compiled and program not in PARTS:
        program = capture.optimize("eager")(program)
    for _ in range(2):
        try:
            program(x, kind, how, found)
        except Exception as error:  # noqa: BLE001 - whatever comes is the same
            found.append(repr(error))
        found.append(all_modes())
        put_back()
    return found[1:]


def put_back():
    while depth_of_autocast() < 0:
        torch.autocast_increment_nesting()
    torch.clear_autocast_cache()
    torch.set_grad_enabled(True)
    torch.set_autocast_enabled("cpu", False)
    torch.set_autocast_dtype("cpu", torch.bfloat16)
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


def left_in_another_order(x):
    outer, inner = torch.autocast("cpu", torch.bfloat16), torch.autocast("cpu", torch.float16)
    outer.__enter__()
    inner.__enter__()
    found = [seen(x)]
    outer.__exit__(None, None, None)
    found.append(seen(x))
    inner.__exit__(None, None, None)
    return [*found, seen(x)]


def left_twice(x):
    context = torch.no_grad()
    with torch.no_grad(), context, torch.enable_grad():
        found = [seen(x)]
    capture.graph_break()
    context.__exit__(None, None, None)
    return [*found, seen(x)]


def autocast_left_twice(x):
    context = torch.autocast("cpu", torch.float16)
    with torch.autocast("cpu", torch.bfloat16), context:
        found = [seen(x)]
    capture.graph_break()
    context.__exit__(None, None, None)
    return [*found, torch.get_autocast_dtype("cpu"), torch.is_autocast_enabled("cpu")]


def left_without_being_entered(x):
    torch.no_grad().__exit__(None, None, None)
    return seen(x)


def switched_when_made(x):
    switch = torch.set_grad_enabled(False)
    found = [seen(x)]
    torch.set_grad_enabled(True)
    capture.graph_break()
    found.append(seen(x))
    switch.clone()
    found.append(seen(x))
    switch.__exit__(None, None, None)
    return [*found, seen(x)]


def a_switch_that_is_kept(x):
    kept = [torch.set_grad_enabled(False), torch.set_grad_enabled(True)]
    found = [seen(x)]
    capture.graph_break()
    while kept:
        kept.pop().__exit__(None, None, None)
        found.append(seen(x))
    return found


def entered_twice(x):
    context = torch.no_grad()
    with context, torch.enable_grad(), context:
        found = [seen(x)]
    return [*found, seen(x)]


def entered_and_forgotten(x):
    torch.inference_mode().__enter__()  # ends with its object, which nobody holds
    return seen(x)


def what_entering_gives(x):
    with torch.no_grad() as a, torch.set_grad_enabled(True) as b, torch.autocast("cpu") as c, torch.device("cpu") as d:
        y = x + 1
    left = torch.no_grad().__exit__, torch.autocast("cpu").__exit__
    return a, b, type(c), d, y.sum().item(), len(left)


class Plain(torch.Tensor):
    """A subclass whose results are its own, where torch's functions ask."""


def without_subclasses(x):
    plain = torch.ones(2).as_subclass(Plain)
    with torch._C.DisableTorchFunctionSubclass():
        y = x * 2
        found = [type(plain + 1)]
        capture.graph_break()
        found.append(type(plain + 1))
    return [*found, type(plain + 1), y.sum().item()]


def labelled(x):
    with torch.profiler.record_function(f"of {x.dim()}") as label:
        y = x * 2
        capture.graph_break()
        y = y.relu()
    return torch.profiler.record_function("a function")(torch.sum)(y).item(), type(label), label.name


ODD = (left_in_another_order, left_twice, autocast_left_twice, left_without_being_entered, switched_when_made)
ODD += (a_switch_that_is_kept, entered_twice, entered_and_forgotten, what_entering_gives, without_subclasses, labelled)


@pytest.mark.parametrize("program", ODD)
def test_contexts_that_programs_use_in_other_ways(program):
    def wholly(x, kind, how, found):
        found.append(program(x))

    assert outcome(wholly, None, None, compiled=True) == outcome(wholly, None, None, compiled=False)
