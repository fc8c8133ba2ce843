"""Coroutine and generator functions under ``optimize``: each step runs in the region, nothing in between does."""

import asyncio
import inspect
import threading

import pytest
import torch

import capture
from capture import _engine


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, a):
        return self.linear(a).relu()


MODEL = Model()


def scaled(a, factor):
    return a * factor + 1


async def preprocess(a):
    b = scaled(a, 2)
    await asyncio.sleep(0)
    return b


async def handler(a):
    """Handles a request."""
    return MODEL(await preprocess(a)) * 2


def countdown(a, count):
    for index in range(count):
        got = yield scaled(a, index)
        if got is not None:
            yield scaled(a, got)
    return "done"


async def countdown_async(a, count):
    try:
        for index in range(count):
            await asyncio.sleep(0)
            got = yield scaled(a, index)
            if got is not None:
                yield scaled(a, got)
    except KeyError:
        yield scaled(a, 100)
    finally:
        await asyncio.sleep(0)


def captured(function):
    log = capture.Log()
    return capture.optimize("eager", strict=True, log=log)(function), log


def graphs_of(log):
    return {record.location.function for record in log.records() if isinstance(record, capture.GraphRecord)}


def test_what_a_handler_calls_is_captured(same, x):
    region, log = captured(handler)
    for _ in range(3):
        same(asyncio.run(handler(x)), asyncio.run(region(x)))
    assert graphs_of(log) == {"scaled", "Model.forward"}
    assert len([record for record in log.records() if isinstance(record, capture.GraphRecord)]) == 2


def test_that_the_frame_itself_is_left_is_a_record(x):
    region, log = captured(handler)
    asyncio.run(region(x))
    asyncio.run(region(x))
    (left,) = [record for record in log.records() if isinstance(record, capture.FallbackRecord)]
    assert left.reason.kind == "coroutine"
    assert left.location.function == "handler"


def test_it_is_refused_where_all_has_to_be_in_graphs(x):
    region = capture.optimize("eager", nopython=True)(handler)
    with pytest.raises(capture.Unsupported, match="CPython steps `handler`"):
        asyncio.run(region(x))


def test_it_is_a_coroutine_function_for_everybody(x):
    region, _ = captured(handler)
    assert inspect.iscoroutinefunction(region)
    assert asyncio.iscoroutinefunction(region)
    assert (region.__name__, region.__doc__) == ("handler", "Handles a request.")
    coroutine = region(x)
    assert inspect.iscoroutine(coroutine)
    assert coroutine.__qualname__ == "handler"
    coroutine.close()


def test_a_compiled_model_within_a_plain_handler(same, x):
    model, log = captured(MODEL)

    async def serve(a):
        return model(await preprocess(a))

    async def serve_all():
        return await asyncio.gather(*(serve(x + i) for i in range(4)))

    for i, served in enumerate(asyncio.run(serve_all())):
        same(served, MODEL(scaled(x + i, 2)))
    assert graphs_of(log) == {"Model.forward"}


def test_tasks_take_turns_and_nothing_between_their_steps_is_captured(same, x):
    region, log = captured(handler)
    configs = []

    async def watch():
        for _ in range(20):
            configs.append(_engine.active_config())
            await asyncio.sleep(0)
            scaled(x, 7)

    async def everything():
        first, *_ = await asyncio.gather(*(region(x + i) for i in range(5)), watch())
        return first

    same(asyncio.run(everything()), asyncio.run(handler(x)))
    assert set(configs) == {None}
    assert graphs_of(log) == {"scaled", "Model.forward"}


def test_two_regions_in_one_loop_keep_apart(same, x):
    (first, one), (second, other) = captured(handler), captured(preprocess)

    async def both():
        return await asyncio.gather(first(x), second(x), first(x + 1), second(x + 1))

    results = asyncio.run(both())
    same(results[3], asyncio.run(preprocess(x + 1)))
    assert graphs_of(one) == {"scaled", "Model.forward"}
    assert graphs_of(other) == {"scaled"}


def test_loops_in_several_threads(same, x):
    region, log = captured(handler)
    expected, results = asyncio.run(handler(x)), []

    def serve():
        async def several():
            return await asyncio.gather(*(region(x) for _ in range(5)))

        results.extend(asyncio.run(several()))

    threads = [threading.Thread(target=serve) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 20
    for result in results:
        same(expected, result)
    assert graphs_of(log) >= {"scaled", "Model.forward"}


def test_cancelling_a_task_runs_its_handlers():
    ended = []

    async def waits():
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        finally:
            ended.append("finally")

    async def cancel():
        task = asyncio.ensure_future(captured(waits)[0]())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert ended == ["cancelled", "finally"]


def test_exceptions_and_timeouts_pass(x):
    async def slow(a):
        try:
            await asyncio.wait_for(asyncio.sleep(1000), 0.001)
        except TimeoutError:
            raise KeyError("slow") from None

    with pytest.raises(KeyError, match="slow"):
        asyncio.run(captured(slow)[0](x))


def test_methods_and_modules(same, x):
    class Served(torch.nn.Module):
        async def forward(self, a):
            return scaled(await preprocess(a), 3)

        async def other(self, a):
            return scaled(a, 5)

    served = Served()
    region, log = captured(served)
    same(asyncio.run(region(x)), asyncio.run(served(x)))
    assert graphs_of(log) == {"scaled"}
    method, log = captured(served.other)
    same(asyncio.run(method(x)), scaled(x, 5))
    assert graphs_of(log) == {"scaled"}


def test_a_generator_function_is_stepped_in_the_region(same, x):
    def drive(function):
        generator = function(x, 3)
        found = [next(generator), generator.send(10), next(generator)]
        try:
            while True:
                found.append(next(generator))
        except StopIteration as stop:
            found.append(stop.value)
        return found

    region, log = captured(countdown)
    same(drive(countdown), drive(region))
    assert graphs_of(log) == {"scaled"}
    assert inspect.isgeneratorfunction(region)


def test_an_async_generator_function_is_stepped_in_the_region(same, x):
    async def drive(function):
        generator = function(x, 3)
        found = [await generator.__anext__(), await generator.asend(10), await generator.__anext__()]
        found.append(await generator.athrow(KeyError()))
        found += [item async for item in generator]
        closed = function(x, 3)
        found.append(await anext(closed))
        await closed.aclose()
        return found, [item async for item in function(x, 2)]

    region, log = captured(countdown_async)
    same(asyncio.run(drive(countdown_async)), asyncio.run(drive(region)))
    assert graphs_of(log) == {"scaled"}
    assert inspect.isasyncgenfunction(region)


def test_one_captured_function_within_another_is_part_of_it(check, x):
    inner = capture.optimize("eager")(countdown)

    def outer(a):
        return sum(inner(a, 3)) + 1

    check(outer, x)


def test_explain_tells_what_the_steps_did(x):
    region, _ = captured(handler)
    coroutine = capture.explain(region)(x)
    assert coroutine.graphs == ()  # nothing ran yet
    coroutine.result.close()
