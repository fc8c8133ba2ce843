"""Attributes of ``threading.local`` objects: each thread's own, read, written and relied on as such."""

import threading
import weakref

import torch

import capture

LOCAL = threading.local()


class Defaulted(threading.local):
    level = 1


DEFAULTED = Defaulted()


def scale(a):
    LOCAL.calls = getattr(LOCAL, "calls", 0) + 1
    return a * LOCAL.scale, hasattr(LOCAL, "nothing")


def in_another_thread(function, *args):
    found = []
    thread = threading.Thread(target=lambda: found.append(function(*args)))
    thread.start()
    thread.join()
    return found[0]


def test_each_thread_finds_its_own(x):
    LOCAL.scale = 2
    captured, before = capture.optimize("eager", strict=True)(scale), len(capture.records())

    def other(a):
        LOCAL.scale = 5
        result = [captured(a) for _ in range(4)][-1]
        return result, LOCAL.calls

    assert torch.equal(captured(x)[0], x * 2)
    (result, nothing), calls = in_another_thread(other, x)
    assert torch.equal(result, x * 5)
    assert (nothing, calls) == (False, 4)
    assert torch.equal(captured(x)[0], x * 2)
    assert LOCAL.calls == 2
    seen = capture.records()[before:]
    assert not [record for record in seen if isinstance(record, capture.BreakRecord)]
    assert [record for record in seen if isinstance(record, capture.GraphRecord)]


def test_a_default_of_the_class(same, x):
    def leveled(a):
        a = a * DEFAULTED.level
        DEFAULTED.level = 3
        return a * DEFAULTED.level

    captured = capture.optimize("eager", strict=True)(leveled)
    for expected in (3, 9):
        same(captured(x), x * expected)
    same(in_another_thread(captured, x), x * 3)


def test_what_stands_for_another_object_is_asked_by_cpython(check, x):
    class Held:
        scale = 2

    held = Held()
    proxy = weakref.proxy(held)
    check(lambda a: (a + 1) * proxy.scale + hasattr(proxy, "nothing"), x, graphs=3, breaks=2)
