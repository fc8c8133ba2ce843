"""Coroutines and asynchronous generators that captured code makes and drives: one graph, as if they were functions."""

import asyncio
import types

import pytest
import torch

import capture


async def doubled(a):
    return a * 2


@types.coroutine
def pause(value=None):
    return (yield value)


def run(coroutine, answers=()):
    """A small event loop: what came out on the way, and the result."""
    seen, answers = [], list(answers)
    try:
        sent = None
        while True:
            seen.append(coroutine.send(sent))
            sent = answers.pop(0) if answers else None
    except StopIteration as stop:
        return stop.value, seen


class Awaitable:
    def __init__(self, value):
        self.value = value

    def __await__(self):
        got = yield "waiting"
        return self.value, got


class Iterated:
    """An iterator of the program's own, with a result."""

    def __init__(self, result):
        self.left, self.result = 2, result

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        self.left -= 1
        if self.left < 0:
            raise StopIteration(self.result)
        return self.left


class Manager:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    async def __aenter__(self):
        self.log.append("enter")
        await pause("entering")
        return self

    async def __aexit__(self, kind, error, traceback):
        self.log.append(kind and kind.__name__)
        await pause("leaving")
        return self.swallow


class Counting:
    def __init__(self, stop):
        self.at, self.stop = 0, stop

    def __aiter__(self):
        return self

    async def __anext__(self):
        self.at += 1
        if self.at > self.stop:
            raise StopAsyncIteration
        await pause(self.at)
        return self.at


async def numbers(count):
    for index in range(count):
        await pause(("before", index))
        got = yield index
        if got:
            yield ("got", got)


def awaits(a):
    async def outer(b):
        c = await doubled(b + 1)
        return c - 1

    return run(outer(a))


def awaits_objects(a):
    async def outer():
        first = await Awaitable(a + 1)
        second = await Iterated("result")
        return first, second

    return run(outer(), ["sent"])


def sends(a):
    async def adding():
        total = a
        for _ in range(3):
            total = total + await pause("more")
        return total

    return run(adding(), [1, 2, 3])


def throws(a):
    async def inner():
        try:
            await pause("inner")
        except KeyError:
            return a + 1
        finally:
            await pause("finally")

    async def outer():
        return await inner()

    coroutine = outer()
    seen = [coroutine.send(None), coroutine.throw(KeyError("k"))]
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value, seen


def throws_through(a):
    async def inner():
        await pause("inner")

    async def outer():
        try:
            await inner()
        except ValueError as error:
            return a * 2, str(error)

    coroutine = outer()
    coroutine.send(None)
    try:
        coroutine.throw(ValueError("thrown"))
    except StopIteration as stop:
        return stop.value


def throws_into_a_generator_that_delegates(a):
    def inner():
        try:
            yield 1
        except KeyError:
            yield 2
        return a + 1

    def outer():
        found = yield from inner()
        yield found * 2

    generator = outer()
    return next(generator), generator.throw(KeyError), next(generator)


def closes(a):
    log = []

    async def inner():
        try:
            await pause()
        finally:
            log.append("inner")

    async def outer():
        try:
            await inner()
        finally:
            log.append("outer")

    coroutine, unstarted = outer(), outer()
    coroutine.send(None)
    coroutine.close()
    unstarted.close()
    return a + 1, log


def misuses(a):
    said = []

    async def simple():
        return 1

    def attempt(function, *args):
        try:
            function(*args)
        except (RuntimeError, TypeError, ValueError, AttributeError) as error:
            said.append((type(error).__name__, str(error)))

    async def awaits_nothing(value):
        await value

    async def stops():
        raise StopIteration("early")

    async def waits():
        await pause()

    done, started, shared = simple(), simple(), waits()
    attempt(run, done)
    attempt(done.send, None)
    attempt(done.throw, ValueError())
    attempt(run, awaits_nothing(done))
    attempt(started.send, 1)
    started.close()
    for value in (1, "text", [a], numbers, iter([])):
        attempt(run, awaits_nothing(value))
    attempt(run, stops())
    shared.send(None)
    attempt(run, awaits_nothing(shared))
    shared.close()
    left = simple()
    attempt(iter, left)
    attempt(next, left)
    left.close()
    return a + 1, said


def manages(a):
    log = []

    async def body(swallow, kind):
        async with Manager(log, swallow) as manager:
            assert manager.log is log
            if kind is not None:
                raise kind("in the body")
        return "swallowed" if kind else "done"

    results = [run(body(False, None)), run(body(True, ValueError))]
    try:
        run(body(False, KeyError))
    except KeyError as error:
        results.append(error.args)
    return a + 1, log, results


def iterates(a):
    async def body():
        total = a
        async for number in Counting(3):
            total = total + number
        else:
            total = total * 2
        return total, [n async for n in Counting(2)], {n: m async for n in Counting(2) async for m in Counting(n)}

    return run(body())


def generates(a):
    async def body():
        found = [n async for n in numbers(3) if n != 1]
        generator = numbers(2)
        found.append(await generator.asend(None))
        found.append(await generator.asend("hello"))
        found.append(await anext(generator))
        try:
            await generator.__anext__()
        except StopAsyncIteration:
            found.append("stopped")
        await generator.aclose()
        return a + len(found), found

    return run(body())


def closes_generators(a):
    log = []

    async def careful():
        try:
            yield 1
            yield 2
        except KeyError:
            yield 3
        finally:
            log.append("closed")
            await pause("closing")

    async def body():
        first, second, third = careful(), careful(), careful()
        found = [await first.__anext__(), await second.asend(None)]
        await first.aclose()
        found.append(await second.athrow(KeyError))
        async for item in third:
            found.append(item)
            break
        await third.aclose()
        await second.aclose()
        return found

    return a + 1, run(body()), log


def yields_lazily(a):
    async def steps():
        yield a + 1
        yield a + 2

    async def body():
        return [b * 2 async for b in steps()]

    return run(body())[0]


def waits_in_handlers(a):
    async def body():
        try:
            raise KeyError("k")
        except KeyError as error:
            await pause()
            try:
                await pause()
                raise ValueError("v")
            except ValueError as second:
                same = second.__context__ is error
                b = a + 1
        finally:
            await pause()
        return b, same

    return run(body())


def nested_awaits(a):
    async def fib(n):
        if n < 2:
            await pause(n)
            return a + n
        return await fib(n - 1) + await fib(n - 2)

    return run(fib(4))


def a_decorated_generator(a):
    return run(pause(a + 1), [a])


WHOLE = [
    awaits,
    awaits_objects,
    sends,
    throws,
    throws_through,
    throws_into_a_generator_that_delegates,
    closes,
    misuses,
    manages,
    iterates,
    generates,
    closes_generators,
    yields_lazily,
    waits_in_handlers,
    nested_awaits,
    a_decorated_generator,
]


@pytest.mark.parametrize("function", WHOLE, ids=lambda function: function.__name__)
def test_one_graph(function, check, x):
    check(function, x)


def test_one_that_is_handed_on_runs_later(same, x):
    """It is made by the call that the program wrote, and what it does is captured as it runs."""

    def make(a):
        b = a + 1

        async def later(c):
            return b * c

        return later(2), b

    region = capture.optimize("eager", strict=True)(make)
    coroutine, b = region(x)
    assert isinstance(coroutine, types.CoroutineType)
    assert coroutine.__qualname__.endswith("later")
    same(run(coroutine)[0], b * 2)


def test_one_that_nobody_awaits_is_warned_of(x):
    async def forgotten(a):
        return a

    def forget(a):
        forgotten(a)
        return a + 1

    with pytest.warns(RuntimeWarning, match="never awaited"):
        assert torch.equal(capture.optimize("eager", strict=True)(forget)(x), x + 1)


def test_one_that_is_left_under_way_ends_as_in_cpython(same, x):
    def leave(a):
        log = []

        async def guarded():
            try:
                await pause()
            finally:
                log.append("ended")

        coroutine = guarded()
        coroutine.send(None)
        b = a + 1
        del coroutine
        return b, log

    same(leave(x), capture.optimize("eager", strict=True)(leave)(x))


def test_a_break_within_a_coroutine(same, x):
    def drive(a):
        async def body():
            b = a + 1
            await pause()
            print(end="")
            await pause()
            return b * 2

        return run(body())[0]

    log = capture.Log()
    captured = capture.optimize("eager", strict=True, log=log)(drive)
    for _ in range(2):
        same(drive(x), captured(x))
    assert [one.reason.kind for one in log.records() if isinstance(one, capture.BreakRecord)] == ["builtin"] * 3


def test_a_method_made_in_c_that_asks_for_its_class(same, x):
    def cancel(a, future):
        b = a + 1
        return b, future.cancel(), future.cancelled()

    captured = capture.optimize("eager", strict=True)(cancel)
    loop = asyncio.new_event_loop()
    try:
        same(captured(x, asyncio.Future(loop=loop)), (x + 1, True, True))
    finally:
        loop.close()


@pytest.mark.parametrize("fails", [False, True])
def test_an_iterator_of_the_program_is_closed_with_the_generator_that_waits_for_it(check, x, fails):
    class Items:
        def __init__(self, seen):
            self.seen = seen

        def __iter__(self):
            return self

        def __next__(self):
            return 1

        def close(self):
            self.seen.append("closed")
            if fails:
                raise ValueError("while closing")

    def function(a):
        def passes_on(seen):
            try:
                yield from Items(seen)
            except (GeneratorExit, ValueError) as error:
                seen.append(type(error).__name__)
                raise

        seen = []
        generator = passes_on(seen)
        next(generator)
        try:
            generator.close()
        except ValueError:
            seen.append("raised")
        return a + 1, seen

    check(function, x)
