"""What is left to CPython breaks with a reason, gives the same results, and leaves the rest captured.

So do frames of whole packages: one table, with a reason for each row.
"""

import asyncio
import sys
import threading
import types

import pytest
import torch
from torch.func import vjp

import capture
from capture.entry.left_alone import PACKAGES_LEFT_ALONE

LOCK, REENTRANT = threading.Lock(), threading.RLock()


async def doubled(a):
    b = a * 2
    await asyncio.sleep(0)
    return b


async def counted(a):
    async with asyncio.Lock():
        a = a + 1
    return a, [i async for i in numbers(3)]


async def numbers(count):
    for i in range(count):
        yield i
        await asyncio.sleep(0)


def awaits(a):
    return asyncio.run(doubled(a + 1)) + 1


def awaits_more(a):
    b, seen = asyncio.run(counted(a))
    return b * 2, seen


def makes_classes(a):
    class Meta(type):
        def __new__(cls, name, bases, members, **options):
            return super().__new__(cls, name, bases, {**members, "extra": len(options)})

    class Base(metaclass=Meta, option=1):
        pass

    class Derived(Base):
        def text(self):
            return super().__repr__() is not None

    return a + Derived.extra + Base.extra, Derived().text()


def locks(a):
    with LOCK:
        a = a * 2
        held = LOCK.locked()
    with REENTRANT, REENTRANT:
        a = a + 1
    return a, held, LOCK.locked()


def raises_under_a_lock(a):
    try:
        with LOCK:
            a = a + 1
            raise ValueError("under the lock")
    except ValueError as error:
        return a * 2, str(error), LOCK.locked()


def hooks(a):
    seen = []
    leaf = a.clone().requires_grad_()
    handle = leaf.register_hook(lambda g: seen.append(g.shape) or g * 3)
    (leaf * leaf).sum().backward()
    handle.remove()
    return leaf.grad + 1, seen


def transforms(a):
    value, pull, kept = vjp(lambda t: (t.sin(), t.cos()), a + 1, has_aux=True)
    return value * 2, pull(a)[0] + 1, kept


CASES = {
    awaits: "coroutine",
    awaits_more: "coroutine",
    makes_classes: "class",
    locks: "lock",
    raises_under_a_lock: "lock",
    hooks: "autograd",
    transforms: "function transform",
}


@pytest.mark.parametrize("function", CASES)
def test_breaks_with_a_reason_and_goes_on(same, x, function):
    captured = capture.optimize("eager", strict=True)(function)
    before = len(capture.records())
    for _ in range(2):
        same(function(x.clone()), captured(x.clone()))
    seen = capture.records()[before:]
    reasons = [record.reason for record in seen if isinstance(record, capture.BreakRecord)]
    assert any(reason.kind == CASES[function] and reason.hint for reason in reasons)
    assert any(isinstance(record, capture.GraphRecord) for record in seen)


def test_a_lock_keeps_threads_apart(x):
    class Counter:
        def __init__(self):
            self.lock, self.total, self.inside, self.most = threading.Lock(), torch.zeros(()), 0, 0

        def add(self, a):
            with self.lock:
                self.inside += 1
                self.most = max(self.most, self.inside)
                self.total = self.total + a.sum()
                self.inside -= 1
            return a + 1

    counter = Counter()
    add = capture.optimize("eager", strict=True)(counter.add)
    threads = [threading.Thread(target=lambda: [add(x) for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.total == 80 * x.sum()
    assert counter.most == 1


def test_a_new_lock_in_every_call_is_no_reason_to_capture_anew(same, x):
    class Guarded:
        def __init__(self):
            self.lock = threading.Lock()

        def add(self, a):
            with self.lock:
                return a + 1

    before = len(capture.records())
    add = capture.optimize("eager", strict=True)(lambda guarded, a: guarded.add(a))
    for _ in range(12):
        same(add(Guarded(), x), x + 1)
    assert not [record for record in capture.records()[before:] if isinstance(record, capture.RecompileRecord)]


def test_methods_of_one_list_are_told_apart(x):
    call = capture.optimize("eager", strict=True)(lambda a, method: (a + 1, method()))
    items = [3, 1, 2]
    assert [call(x, method)[1] for method in (items.copy, items.pop, items.copy, items.sort)] == [
        [3, 1, 2],
        2,
        [3, 1],
        None,
    ]
    assert items == [1, 3]


def test_a_captured_coroutine(same, x):
    captured = capture.optimize("eager", strict=True)(doubled)
    same(asyncio.run(doubled(x)), asyncio.run(captured(x)))


def callee(a):
    b = a + 1
    return b * 2


def test_a_trace_function_that_the_program_sets_sees_every_line(same, x):
    def play(a):
        lines = []

        def trace(frame, event, arg):
            if event == "line" and frame.f_code is callee.__code__:
                lines.append(frame.f_lineno)
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            b = callee(a)
        finally:
            sys.settrace(before)
        return lines, b, callee(a)

    same(play(x), capture.optimize("eager", strict=True)(play)(x))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors(x):
    nested = torch.nested.nested_tensor([torch.ones(3), torch.ones(2)])
    found = capture.explain(lambda a: a * 2, strict=True)(nested)
    assert found.result.is_nested
    assert [broken.reason.kind for broken in found.breaks] == ["tensor layout"]
    double = capture.optimize("eager", strict=True)(lambda a: a * 2)
    assert [double(a).is_nested for a in (x, nested, x, nested)] == [False, True, False, True]


LAYERS = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()).requires_grad_(False)
TRACED = {
    "operators": lambda x: (x.sin() + 1).relu(),
    "sizes of data": lambda x: torch.nonzero(x > 0),
    "a module": lambda x: LAYERS(x),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit")
@pytest.mark.parametrize("name", TRACED)
@pytest.mark.parametrize("called_before", [False, True])
def test_torch_jit_traces_what_is_captured_as_if_it_were_not(name, called_before):
    function, x = TRACED[name], torch.randn(5, 3)
    captured = capture.optimize("eager", strict=True)(function)
    with torch.no_grad():
        if called_before:
            captured(x)
        program = torch.jit.trace(captured, x)
        inside = capture.optimize("eager", strict=True)(lambda x: torch.jit.trace(function, x)(x))
        for each in (program(x), inside(x), captured(x)):
            torch.testing.assert_close(each, function(x))


# -- packages whose frames CPython runs -------------------------------------------------------------------------------


PROGRAM = """
def computes(x):
    return x.sin() + x.cos()
"""


def graphs_of_a_frame_of(package, x):
    """How many graphs come of a function of that package, which a program calls where its own graph ended."""
    module = types.ModuleType(f"{package}.somewhere")
    exec(compile(PROGRAM, f"/of/{package}.py", "exec"), vars(module))

    def program(x):
        capture.graph_break()
        return module.computes(x)

    capture.reset()
    assert torch.equal(capture.optimize("eager")(capture.disable_alone(program))(x), program(x))
    return sum(isinstance(record, capture.GraphRecord) for record in capture.records())


@pytest.mark.parametrize("package", PACKAGES_LEFT_ALONE)
def test_a_frame_of_such_a_package_is_left_to_cpython(package):
    assert PACKAGES_LEFT_ALONE[package]
    assert graphs_of_a_frame_of(package, torch.ones(3)) == 0


@pytest.mark.parametrize("package", ["numpyro", "triton_kernels", "program"])
def test_a_frame_of_another_package_is_captured(package):
    assert graphs_of_a_frame_of(package, torch.ones(3)) == 1
