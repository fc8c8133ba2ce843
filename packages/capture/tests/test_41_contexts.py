"""Torch's context managers inside captured code, and the user's own."""

import contextlib

import pytest
import torch
from torch.overrides import TorchFunctionMode

import capture


def test_grad_modes(check, x):
    def modes(a):
        with torch.no_grad():
            b = a * 2
        with torch.enable_grad():
            c = a * 3
        with torch.set_grad_enabled(False):
            d = a + 1
        return b, c, d, torch.is_grad_enabled()

    check(modes, x.requires_grad_())
    with torch.no_grad():
        check(modes, x)


def test_a_mode_that_stays(x):
    def switch(a):
        b = a * 2
        torch.set_grad_enabled(False)
        return b, a * 3

    try:
        first, second = capture.optimize("eager", strict=True)(switch)(x.requires_grad_())
        assert (first.requires_grad, second.requires_grad, torch.is_grad_enabled()) == (True, False, False)
    finally:
        torch.set_grad_enabled(True)


def test_autocast(check, x):
    def cast(a):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            b = a @ a.T
            with torch.autocast("cpu", enabled=False):
                c = a @ a.T
        return b, c

    check(cast, x)


def test_inference_mode(x):
    def infer(a):
        with torch.inference_mode():
            return a * 2

    assert capture.optimize("eager", strict=True)(infer)(x).is_inference()


@torch.no_grad()
def decorated(a):
    return a * 2


def test_decorated_functions(check, x):
    check(lambda a: (decorated(a), a + 1), x.requires_grad_())


class Recorder:
    def __init__(self):
        self.log = []

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, cls, error, traceback):
        self.log.append(cls.__name__ if cls else "exit")
        return cls is KeyError


@contextlib.contextmanager
def managed(log):
    log.append("enter")
    try:
        yield log
    finally:
        log.append("exit")


def test_the_users_own(check, x):
    def use(a):
        recorder, log = Recorder(), []
        with recorder:
            a = a + 1
        with recorder as r:
            raise KeyError(r)
        with managed(log) as inner:
            a = a * len(inner)
        return a, recorder.log, log

    check(use, x)


def test_a_break_inside_a_mode_keeps_the_mode(check, x):
    def inside(a):
        with torch.no_grad():
            b = a * 2
            capture.graph_break()
            c = a * 3
        return b, c, a * 4

    check(inside, x.requires_grad_(), graphs=2, breaks=1)


MODES = {
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "inference": torch.inference_mode,
    "no inference": lambda: torch.inference_mode(False),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "no autocast": lambda: torch.autocast("cpu", enabled=False),
}


def modes_in_force():
    torch.autocast_increment_nesting()
    depth = torch.autocast_decrement_nesting()
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"), depth


def seen(x, w):
    y = x @ w
    return y.dtype, y.requires_grad, y.is_inference(), modes_in_force()


def one_after_the_other(first, second):
    def program(x, w):
        found = [seen(x, w)]
        for mode in (first, second):
            with mode():
                found.append(seen(x, w))
                capture.graph_break()
                found.append(seen(x, w))
            found.append(seen(x, w))
        capture.graph_break()
        return [*found, seen(x, w)]

    return program


@pytest.mark.parametrize("outer", MODES)
@pytest.mark.parametrize("first", MODES)
@pytest.mark.parametrize("second", MODES)
def test_breaks_inside_modes_one_after_the_other(outer, first, second):
    program = one_after_the_other(MODES[first], MODES[second])
    x, w = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
    with MODES[outer]():
        before = modes_in_force()
        assert capture.optimize("eager", strict=True)(program)(x, w) == program(x, w)
        assert modes_in_force() == before


@pytest.mark.parametrize("name", MODES)
def test_an_error_inside_a_mode_leaves_it(name):
    def pick(x, index):
        with MODES[name](), torch.no_grad():
            return x.sin()[index]

    compiled, before = capture.optimize("eager")(pick), modes_in_force()
    compiled(torch.ones(3), torch.tensor([1]))
    with pytest.raises(IndexError):
        compiled(torch.ones(3), torch.tensor([7]))
    assert modes_in_force() == before


@pytest.mark.parametrize("outer", MODES)
@pytest.mark.parametrize("middle", MODES)
@pytest.mark.parametrize("inner", MODES)
def test_a_graph_that_raises_inside_modes_leaves_them_in_order(outer, middle, inner):
    def spread(x, index):
        x[1:] = 1.0
        with MODES[outer](), MODES[middle](), MODES[inner]():
            x[index] = x  # reads what it writes: refused

    before = modes_in_force()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="single memory location"):
            capture.optimize("eager")(spread)(torch.ones(4, 4), torch.tensor([0, 2]))
        assert modes_in_force() == before


def test_code_without_a_graph_asks_for_the_mode_anew(x):
    def ask(a, answers):
        for _ in range(2):
            n = int(a.sum().item())
            answers.append(torch.is_grad_enabled())
        return n

    compiled = capture.optimize("eager", strict=True)(ask)
    for mode, expected in ((torch.no_grad, False), (torch.enable_grad, True)):
        answers = []
        with mode():
            compiled(x, answers)
        assert answers == [expected] * 2


def default_devices(a):
    with torch.device("meta") as device:
        made = [torch.zeros(3), torch.ones(2, device="cpu"), torch.tensor([1.0]), torch.eye(2, device=None)]
        inner = torch.get_default_device()
        with torch.device("cpu"):
            made.append(torch.rand(2))
    return a + 1, [(each.device, each.shape) for each in made], device, inner, torch.zeros(1).device


def test_default_devices(check, x):
    check(default_devices, x)
    with torch.device("meta"):
        check(default_devices, x)


def test_a_break_under_a_default_device(check, x):
    def made(a):
        with torch.device("meta"):
            first = torch.zeros(3)
            capture.graph_break()
            second = torch.zeros(3)
        return first.device, second.device, torch.zeros(3).device, a + 1

    check(made, x, graphs=3, breaks=2)


def test_the_default_device_around_a_call_is_relied_on(x):
    where = capture.optimize("eager", strict=True)(lambda a: (a + 1, torch.zeros(1).device.type == "meta"))
    seen = []
    for device in ("cpu", "meta", "cpu", "meta"):
        with torch.device(device):
            seen.append(where(x)[1])
    assert seen == [False, True, False, True]


def test_under_a_mode_of_the_user_everything_is_done_once(x):
    class Counting(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return torch.cos(*args) if function is torch.sin else function(*args, **(kwargs or {}))

    seen = []
    captured = capture.optimize("eager", strict=True)(lambda a: torch.sin(a) + 1)
    with Counting():
        results = [captured(x) for _ in range(2)]
    assert torch.equal(captured(x), torch.sin(x) + 1)
    assert all(torch.equal(result, torch.cos(x) + 1) for result in results)
    assert seen.count(torch.sin) == 2


@pytest.mark.parametrize("use", [lambda a: torch.einsum("ij,jk->ik", a, a), torch.nn.LSTM(3, 3), torch.inner])
def test_operators_made_of_others_are_cast_in_inference_mode(check, x, use):
    def f(a):
        with torch.inference_mode(), torch.autocast("cpu"):
            given = use(a, a) if use is torch.inner else use(a)
            return (given[0] if isinstance(given, tuple) else given).dtype, given

    check(f, torch.ones(3, 3))


@pytest.mark.parametrize("view", [torch.flatten, lambda w: w.reshape(1, -1), lambda w: w.T, lambda w: w.view_as(w)])
def test_views_of_what_wants_gradients_do_in_inference_mode(check, view):
    def f(w):
        with torch.inference_mode():
            v = view(w)
            return v * 2 if v.requires_grad else v + 7

    check(f, torch.ones(2, 2, requires_grad=True))
