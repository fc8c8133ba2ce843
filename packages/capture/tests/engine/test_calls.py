"""Calls: when the translator is asked, what it is told, and how transformed code runs in the place of the call."""

import sys
import traceback

import pytest
from engine_under_test import (
    SKIP_ALWAYS,
    SKIP_ONCE,
    GuardedCode,
    Guards,
    Outside,
    Region,
    add_entry,
    counters,
    drop_entries,
    entries,
    run_as_is,
    set_translator,
)

HOLDS_ALWAYS = (("root",), (), ())


def first_argument_is(type_):
    return (("root",), (), ((("arg", 0), (("type", 0, type_),), ()),))


def test_a_call_is_translated_once_and_hits_from_then_on(script):
    def add(a, b):
        return a + b

    def multiply(a, b):
        return a * b

    region = script.replace(add, multiply)
    before = counters()
    assert [region(3, 4) for _ in range(5)] == [12] * 5
    assert len(script.asked) == 1
    assert counters()["hits"] - before["hits"] == 4
    assert counters()["misses"] - before["misses"] == 1
    assert [entry.hits for entry in entries(add.__code__)] == [4]
    assert add(3, 4) == 7, "outside of a region nothing is replaced"


def test_failing_guards_ask_again_and_the_last_hit_is_tried_first(script):
    def original(x):
        return "original"

    def for_int(x):
        return "int"

    def for_str(x):
        return "str"

    region = script.replace(original, for_int, first_argument_is(int))
    assert region(1) == "int"
    script.replace(original, for_str, first_argument_is(str))
    assert [region("s"), region(1), region("s"), region(2)] == ["str", "int", "str", "int"]
    assert len(script.asked) == 2
    assert [entry.code for entry in entries(original.__code__)] == [for_int.__code__, for_str.__code__]


def test_the_translator_sees_argument_slots_in_the_order_of_varnames(script):
    def many(a, b=2, *rest, key=3, **named):
        local = [a]
        return local.pop()

    script.otherwise = SKIP_ONCE
    Region(many, script.config)(1, 5, 6, key=7, other=8)
    Region(many, script.config)(a=1)
    assert [args for _, args in script.asked] == [(1, 5, 7, (6,), {"other": 8}), (1, 2, 3, (), {})]
    assert many.__code__.co_varnames[:5] == ("a", "b", "key", "rest", "named")


def test_every_kind_of_parameter_reaches_the_transformed_code(script):
    def many(a, b=2, *rest, key=3, **named):
        return None

    def plain(a, b, key, rest, named):
        return [a, b, key, rest, named]

    region = script.replace(many, plain)
    for _ in range(2):
        assert region(1) == [1, 2, 3, (), {}]
        assert region(1, 5, 6, 7, key=8, other=9) == [1, 5, 8, (6, 7), {"other": 9}]


def test_closures_of_each_call_reach_the_transformed_code(script):
    def make(number):
        def original(x):
            return number, x

        return original

    def make_other(number):
        def transformed(x):
            def inner():
                return number + x

            return inner()

        return transformed

    script.replace(make(0), make_other(0))
    regions = [Region(make(number), script.config) for number in (10, 20)]
    assert [region(1) for region in regions * 2] == [11, 21, 11, 21]
    assert script.names_asked() == ["original", "inner"]


def test_cells_among_the_arguments_are_made_by_the_transformed_code(script):
    def original(x, y):
        return lambda: (x, y)

    def transformed(x, y):
        def both():
            return y, x

        return both

    region = script.replace(original, transformed)
    assert [region(1, 2)(), region(3, 4)()] == [(2, 1), (4, 3)]


def test_methods_and_super_work_in_transformed_code(script):
    class Base:
        def describe(self):
            return "base"

    class Derived(Base):
        def original(self):
            return super().describe(), __class__

        def transformed(self):
            return "derived of " + super().describe(), __class__

    region = script.replace(Derived.original, Derived.transformed)
    assert [region(Derived()) for _ in range(2)] == [("derived of base", Derived)] * 2


def function_with_locals(name, count):
    """A function of one argument that returns the sum of its many locals: its frame has a word for each."""
    names = [f"local{i}" for i in range(count)]
    lines = [f"    {local} = {i}\n" for i, local in enumerate(names)]
    space = {}
    exec(f"def {name}(x):\n{''.join(lines)}    return {' + '.join(names[-3:])} + x", space)
    return space[name]


@pytest.mark.parametrize("count", [3, 500, 20_000])
def test_transformed_code_may_need_a_larger_frame(script, count):
    def small(x):
        return x

    region = script.replace(small, function_with_locals("large", count))
    assert [region(1) for _ in range(3)] == [3 * count - 5] * 3


def at_depth(depth, call):
    return call() if depth == 0 else at_depth(depth - 1, call)


@pytest.mark.parametrize("before", [3, 100, 3_000])
@pytest.mark.parametrize("after", [4, 101, 3_001])
def test_frames_at_every_place_of_the_stack(script, before, after):
    """CPython's stack of frames grows in chunks: a frame can be the last to fit, or the first of its chunk."""
    original = function_with_locals("original", before)
    region = script.replace(original, function_with_locals("transformed", after))
    assert [at_depth(depth, lambda: region(1)) for depth in range(250)] == [3 * after - 5] * 250
    assert original(1) == 3 * before - 5


@pytest.mark.parametrize("count", [3, 100, 3_000])
def test_frames_given_up_at_every_place_of_the_stack(count):
    def translator(config, function, args):
        raise LookupError

    original = function_with_locals("original", count)
    set_translator(translator)
    for depth in range(250):
        with pytest.raises(LookupError):
            at_depth(depth, lambda: Region(original, "config")(1))
    set_translator(None)
    assert original(1) == 3 * count - 5


def test_skip_once_asks_again_and_skip_always_does_not(script):
    def f():
        return "plain"

    region = Region(f, script.config)
    script.otherwise = SKIP_ONCE
    assert [region(), region()] == ["plain"] * 2
    assert script.names_asked() == ["f", "f"]
    script.otherwise = SKIP_ALWAYS
    assert [region(), region(), region()] == ["plain"] * 3
    assert script.names_asked() == ["f"] * 3


def test_callees_of_a_skipped_frame_are_considered(script):
    def callee():
        return "original"

    def caller():
        return callee()

    def transformed():
        return "transformed"

    script.replace(callee, transformed)
    assert [Region(caller, script.config)() for _ in range(2)] == ["transformed"] * 2
    assert script.names_asked() == ["caller", "callee"]


def callee():
    return "original"


callee_outside = Outside(callee)


def test_callees_of_transformed_code_are_considered_but_not_those_outside(script):
    def fast():
        return "fast"

    def caller():
        return None

    def calls_both():
        return callee(), callee_outside()

    script.replace(callee, fast)
    assert script.replace(caller, calls_both)() == ("fast", "original")


def test_configurations_keep_their_own_entries(script):
    def f():
        return "plain"

    def fast():
        return "fast"

    region = script.replace(f, fast)
    other = Region(f, object())
    assert [region(), other(), region()] == ["fast"] * 3
    assert len(script.asked) == 2
    drop_entries(f.__code__, script.config)
    script.replacements.clear()
    assert [other(), region()] == ["fast", "plain"]


def test_many_configurations_share_a_function(script):
    def f():
        return "plain"

    def fast():
        return "fast"

    script.replace(f, fast)
    regions = [Region(f, object()) for _ in range(20)]
    assert [region() for region in regions * 3 + regions[::-1]] == ["fast"] * 80
    assert len(script.asked) == 20
    assert len(entries(f.__code__)) == 20


def test_run_as_is_hides_a_code_object_but_not_its_callees(script):
    def callee():
        return 1

    def mine():
        return callee()

    run_as_is(mine.__code__)
    assert Region(mine, script.config)() == 1
    assert script.names_asked() == ["callee"]


def test_generators_classes_and_comprehension_callers_go_to_cpython(script):
    async def coroutine():
        return 1

    def generator():
        yield 1

    def everything():
        class Body:
            attribute = 2

        exec("value = 3", {})
        coroutine().close()
        return [*generator(), Body.attribute]

    assert Region(everything, script.config)() == [1, 2]
    assert script.names_asked() == ["everything"]


def test_exceptions_of_transformed_code_have_its_traceback(script):
    def original(x):
        return x

    def transformed(x):
        raise ValueError("from the transformed code")

    region = script.replace(original, transformed)
    for _ in range(2):
        with pytest.raises(ValueError, match="transformed") as caught:
            region(1)
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert names[-1] == "transformed"
        assert "original" not in names


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError, SystemExit])
def test_exceptions_of_the_translator_reach_the_caller_and_break_nothing(error):
    def translator(config, function, args):
        raise error("translator")

    def f(a, *b, **c):
        return a

    set_translator(translator)
    for _ in range(100):
        with pytest.raises(error, match="translator"):
            Region(f, "config")(1, 2, c=3)
    set_translator(None)
    assert Region(f, "config")(1) == 1


@pytest.mark.parametrize("verdict", [None, 3, "SKIP_ONCE"])
def test_a_translator_that_returns_anything_else_is_told(verdict):
    set_translator(lambda config, function, args: verdict)
    with pytest.raises(TypeError, match="must return GuardedCode, code, SKIP_ONCE or SKIP_ALWAYS"):
        Region(lambda: 1, "config")()
    set_translator(None)


def test_a_translator_that_answers_for_another_configuration_is_told():
    def translator(config, function, args):
        return GuardedCode((lambda: 1).__code__, Guards(HOLDS_ALWAYS), "another")

    set_translator(translator)
    with pytest.raises(ValueError, match="of another owner"):
        Region(lambda: 1, "config")()
    set_translator(None)


def test_what_the_engine_makes_says_what_it_is():
    def function(x):
        return x

    entry = GuardedCode(function.__code__, Guards(HOLDS_ALWAYS), "owner")
    assert repr(entry).endswith("function, hit 0 times>")
    assert entry.guards.check(function, ())
    assert [repr(SKIP_ONCE), repr(SKIP_ALWAYS)] == ["SKIP_ONCE", "SKIP_ALWAYS"]
    assert repr(Region(len, "config")) == "<Region of <built-in function len>>"
    assert repr(Outside(len)) == "<Outside of <built-in function len>>"


@pytest.mark.parametrize("call", [lambda: entries(3), lambda: run_as_is(len), lambda: set_translator(3)])
def test_arguments_of_another_type_are_refused(call):
    with pytest.raises(TypeError):
        call()


def test_code_that_cannot_take_the_place_of_the_call_is_refused(script):
    def f(a, b):
        return a

    def starred(*args):
        return args

    def generator(a, b):
        yield a

    for wrong in (starred, generator):
        with pytest.raises(ValueError, match="cannot run in the place of a call"):
            script.replace(f, wrong)(1, 2)
    with pytest.raises(ValueError, match=r"takes 1 parameters, but calls of .* have 2 argument slots"):
        script.replace(f, lambda a: a)(1, 2)
    with pytest.raises(ValueError, match="free variables"):
        script.replace(f, lambda a, b: script)(1, 2)
    assert entries(f.__code__) == []


def test_the_caller_of_transformed_code_is_the_original_caller(script):
    def original():
        return None

    def transformed():
        frame = sys._getframe()
        return frame.f_code.co_name, frame.f_back.f_code.co_name, list(frame.f_locals)

    region = script.replace(original, transformed)

    def caller():
        return region()

    for _ in range(2):
        assert caller() == ("transformed", "caller", ["frame"])


def fibonacci(n):
    return "never"


def test_recursion_through_a_transformed_function(script):
    def transformed(n):
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    assert script.replace(fibonacci, transformed)(15) == 610
    assert len(script.asked) == 1


def test_entries_can_be_added_by_hand_and_dropped_while_they_run(script):
    def f(x):
        return "original"

    def transformed(x):
        x()
        return "transformed"

    add_entry(f.__code__, GuardedCode(transformed.__code__, Guards(HOLDS_ALWAYS), script.config))
    region = Region(f, script.config)
    assert region(lambda: drop_entries(f.__code__)) == "transformed"
    assert entries(f.__code__) == []
    assert region(lambda: None) == "original"


def test_guards_that_change_the_entries_they_belong_to(script):
    def f(x):
        return "original"

    def transformed(x):
        return "transformed"

    def drop(value):
        drop_entries(f.__code__)
        return False

    spec = (("root",), (("python", 0, drop),), ())
    region = script.replace(f, transformed, spec)
    assert [region(1) for _ in range(3)] == ["transformed"] * 3
    assert len(script.asked) == 3


def test_the_interpreter_is_as_before_when_no_region_is_active(script):
    def callee():
        return 1

    Region(callee, script.config)()
    before = counters()
    callee()
    assert counters() == before


def test_an_entry_under_review_is_asked_about_at_that_hit_and_may_stay(script):
    def original():
        return "original"

    def other():
        return "other"

    region = script.replace(original, other)
    region()
    (entry,) = entries(original.__code__)
    entry.review = 3
    set_translator(lambda config, function, args: script.asked.append(function) or entry)
    assert [region() for _ in range(5)] == ["other"] * 5
    assert len(script.asked) == 2
    assert (entry.review, entry.hits, entries(original.__code__)) == (3, 5, [entry])
    with pytest.raises(OverflowError):
        entry.review = -1
