"""An operator written in Python reads the program's objects while the graph runs: what was written before is there."""

import contextvars
import threading
from types import SimpleNamespace

import pytest
import torch

import capture

_number = 1
HELD, NUMBERS, TABLE = SimpleNamespace(number=1), [1], {"number": 1}
VARIABLE, LOCAL = contextvars.ContextVar("VARIABLE", default=1), threading.local()
LOCAL.number = 1


class Settings:
    number = 1


def by_way_of_a_function():
    return HELD.number


def _set_global(n):
    global _number
    _number = n


def cell(n=None, held=[1]):
    if n is not None:
        held[0] = n
    return held[0]


FORMS = {
    "global": (lambda: _number, _set_global),
    "attribute": (by_way_of_a_function, lambda n: setattr(HELD, "number", n)),
    "item": (lambda: NUMBERS[-1], lambda n: NUMBERS.append(n)),
    "entry": (lambda: TABLE["number"], lambda n: TABLE.update(number=n)),
    "context variable": (lambda: VARIABLE.get(), lambda n: VARIABLE.set(n)),
    "thread local": (lambda: LOCAL.number, lambda n: setattr(LOCAL, "number", n)),
    "class": (lambda: Settings.number, lambda n: setattr(Settings, "number", n)),
    "default": (cell, cell),
}


def _made(read, name):
    @torch.library.custom_op(f"capture_tests::reads_{name.replace(' ', '_')}", mutates_args=())
    def custom(x: torch.Tensor) -> torch.Tensor:
        return x + read()

    custom.register_fake(lambda x: torch.empty_like(x))
    return custom


def captured(f, **options):
    log = capture.Log()
    return capture.optimize("eager", strict=True, log=log, **options)(f), log


def breaks(log):
    return [record.reason.explanation for record in log.records() if isinstance(record, capture.BreakRecord)]


@pytest.mark.parametrize("name", FORMS)
def test_a_custom_operator_reads_what_was_just_written(x, name):
    read, write = FORMS[name]
    custom = _made(read, name)

    def f(a, n):
        write(n)
        return custom(a * 2)

    function, _ = captured(f)
    for n in (5, 5, 6):
        assert torch.equal(function(x, n), x * 2 + n)


def test_a_registered_kernel_reads_what_was_just_written(x):
    library = torch.library.Library("capture_tests_kernels", "FRAGMENT")
    library.define("reads(Tensor x) -> Tensor")
    library.impl("reads", lambda a: a + HELD.number, "CPU")
    library.impl("reads", lambda a: torch.empty_like(a), "Meta")

    def f(a, n):
        HELD.number = n
        return torch.ops.capture_tests_kernels.reads(a)

    function, log = captured(f)
    assert torch.equal(function(x, 7), x + 7)
    assert breaks(log) == ["`reads` is written in Python and may read what was changed before it"]


def test_a_function_that_is_allowed_in_graphs(x):
    @capture.allow_in_graph
    def reads(a):
        return a + HELD.number

    def f(a, n):
        HELD.number = n
        return reads(a)

    function, _ = captured(f)
    for n in (3, 4):
        assert torch.equal(function(x, n), x + n)


def test_what_an_operator_cannot_reach_may_be_written_before_it(x):
    custom = _made(lambda: 1, "nothing")
    cache = {"calls": 0}

    def f(a, held):
        held["calls"] += 1
        return custom(a)

    function, log = captured(f, nopython=True)
    assert torch.equal(function(x, cache), x + 1)
    assert not breaks(log)
    assert cache == {"calls": 1}
