"""What the interpreter promises goes on being true: recursion limits, tracing, profiling, threads, generators."""

import contextlib
import importlib.util
import sys
import threading
import time

import pytest
from engine_under_test import (
    SKIP_ONCE,
    GuardedCode,
    Guards,
    Outside,
    Region,
    active_config,
    counters,
    drop_entries,
    set_translator,
)

HOLDS_ALWAYS = (("root",), (), ())


def depth_reached(call):
    """How deep a function that calls itself through ``call`` gets before RecursionError."""
    reached = 0

    def recur():
        nonlocal reached
        reached += 1
        call(recur)

    with pytest.raises(RecursionError):
        call(recur)
    return reached


@contextlib.contextmanager
def recursion_limit(limit):
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize("limit", [900, 20_000])
def test_recursion_goes_as_deep_as_without_us(script, limit):
    with recursion_limit(limit):
        plain = depth_reached(lambda function: function())
        captured = Region(lambda: depth_reached(lambda function: function()), script.config)()
    assert abs(captured - plain) < 20


def deep(n):
    return None


def test_deep_recursion_of_transformed_code(script):
    def transformed(n):
        return 0 if n == 0 else deep(n - 1) + 1

    region = script.replace(deep, transformed)
    assert region(300) == 300


def test_calls_nested_too_deep_run_plain_and_are_counted(script):
    def transformed(n):
        return deep(n - 1)

    before = counters()["too deep"]
    with recursion_limit(900):
        assert script.replace(deep, transformed)(500) is None
    assert counters()["too deep"] == before + 1


def test_recursion_errors_of_transformed_code(script):
    def transformed(n):
        return deep(n + 1)

    region = script.replace(deep, transformed)
    with recursion_limit(300), pytest.raises(RecursionError):
        region(0)


def traced_events(install, function):
    events = []

    def trace(frame, event, argument):
        if frame.f_code.co_filename == __file__:
            events.append((event, frame.f_code.co_name))
        return trace

    install(trace)
    try:
        function()
    finally:
        install(None)
    return events


@pytest.mark.parametrize("install", [sys.settrace, sys.setprofile])
def test_tracing_sees_the_transformed_code_and_is_not_captured(script, install):
    def original():
        return 1

    def transformed():
        return 2

    region = script.replace(original, transformed)
    region()
    script.asked.clear()
    events = traced_events(install, region)
    assert ("call", "transformed") in events
    assert ("return", "transformed") in events
    assert not [event for event in events if event[1] == "original"]
    assert script.names_asked() == []


def test_tracing_set_during_a_region(script):
    def original():
        sys.setprofile(lambda *event: None)
        sys.setprofile(None)
        return 1

    assert Region(original, script.config)() == 1


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")
def test_monitoring_sees_the_transformed_code(script):
    def original():
        return 1

    def transformed():
        return 2

    region = script.replace(original, transformed)
    started = []
    monitoring = sys.monitoring
    monitoring.use_tool_id(3, "test")
    try:
        monitoring.register_callback(3, monitoring.events.PY_START, lambda code, _: started.append(code.co_name))
        monitoring.set_events(3, monitoring.events.PY_START)
        region()
        region()
    finally:
        monitoring.set_events(3, 0)
        monitoring.free_tool_id(3)
    assert started.count("transformed") == 2
    assert "original" not in started


def test_generators_and_coroutines_run_through_regions(script):
    def generator(n):
        for i in range(n):
            sent = yield i
            assert sent is None
        return "done"

    async def coroutine():
        return "result"

    def consume():
        iterator = generator(3)
        values = [*iterator]
        thrown = generator(3)
        next(thrown)
        with pytest.raises(KeyError):
            thrown.throw(KeyError("thrown in"))
        with pytest.raises(StopIteration, match="result"):
            coroutine().send(None)
        return values

    script.otherwise = SKIP_ONCE
    assert Region(consume, script.config)() == [0, 1, 2]


def test_a_generator_started_inside_goes_on_outside(script):
    def generator():
        yield active_config()
        yield active_config()

    def start():
        iterator = generator()
        return iterator, next(iterator)

    iterator, inside = Region(start, script.config)()
    assert (inside, next(iterator)) == (script.config, None)


def run_in_threads(run, arguments):
    """Runs one thread per argument, switching between them as often as CPython can."""
    threads = [threading.Thread(target=run, args=(argument,)) for argument in arguments]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)


def test_threads_run_with_configurations_of_their_own(script):
    def work(n):
        return None

    def transformed(n):
        time.sleep(0)
        return active_config(), n

    script.replacements["work"] = (transformed, HOLDS_ALWAYS)
    failures = []

    def run(config):
        region = Region(work, config)
        failures.extend(n for n in range(300) if region(n) != (config, n) or active_config() is not None)

    run_in_threads(run, [object() for _ in range(8)])
    assert failures == []


def test_threads_that_translate_drop_and_reorder_the_same_code(script):
    def work(n):
        return "original"

    def translator_result(config, function, args):
        kind = args[0] % 3
        spec = (("root",), (), ((("arg", 0), (("python", 0, lambda n: n % 3 == kind),), ()),))
        space = {}
        exec(f"def transformed(n): return {kind}", space)
        return GuardedCode(space["transformed"].__code__, Guards(spec), config)

    set_translator(translator_result)
    region = Region(work, script.config)
    failures = []

    def run(start):
        for n in range(start, start + 400):
            if region(n) != n % 3:
                failures.append(n)
            if n % 50 == 0:
                drop_entries(work.__code__)

    run_in_threads(run, range(6))
    assert failures == []


def test_the_translator_runs_with_capture_off_and_can_use_regions(script):
    def helper():
        return active_config()

    inner = object()
    seen = []

    def translator(config, function, args):
        seen.append((active_config(), Region(helper, inner)() if function.__name__ == "f" else None))
        return SKIP_ONCE

    set_translator(translator)

    def f():
        return active_config()

    assert Region(f, script.config)() is script.config
    assert seen == [(None, None), (None, inner)]


def test_guards_run_with_capture_off(script):
    def f(x):
        return 1

    def g(x):
        return 2

    seen = []
    spec = (("root",), (("python", 0, lambda value: seen.append(active_config()) is None),), ())
    region = script.replace(f, g, spec)
    assert [region(1), region(1)] == [2, 2]
    assert seen == [None]
    assert script.names_asked() == ["f"]


def test_exceptions_pass_through_many_levels(script):
    def level(n):
        if n == 0:
            raise ValueError("bottom")
        try:
            return level(n - 1)
        finally:
            levels.append(n)

    levels = []
    script.otherwise = SKIP_ONCE
    with pytest.raises(ValueError, match="bottom"):
        Region(level, script.config)(50)
    assert levels == [*range(1, 51)]


def test_an_outside_callable_leaves_the_interpreter_without_evaluator(script):
    def helper():
        return 1

    def around():
        before = counters()
        Outside(helper)()
        return before, counters()

    script.otherwise = SKIP_ONCE
    before, after = Region(around, script.config)()
    assert before == after


def test_the_module_can_be_imported_anew(script):
    import engine_under_test

    spec = importlib.util.spec_from_file_location("capture._engine", engine_under_test.__file__)
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    assert again.Region is Region
    assert again.SKIP_ONCE is SKIP_ONCE
