"""Nothing leaks and nothing dies early: code objects, entries, owners, arguments, and the process as a whole."""

import gc
import sys
import weakref

import pytest
from engine_under_test import GuardedCode, Guards, Outside, Region, add_entry, drop_entries, entries, set_translator

HOLDS_ALWAYS = (("root",), (), ())
FAILS_ALWAYS = (("root",), (("false", 0),), ())


class Owner:
    """An owner that allows weak references."""


def fresh_function(source="lambda x: x"):
    """A function with a code object of its own."""
    return eval(compile(source, "<fresh>", "eval"))


def test_entries_die_with_their_code_object():
    function = fresh_function()
    entry_holds = Owner()
    spec = (("const", entry_holds), (), ())
    add_entry(function.__code__, GuardedCode(fresh_function().__code__, Guards(spec), "owner"))
    alive = weakref.ref(entry_holds)
    del entry_holds, spec
    gc.collect()
    assert alive() is not None
    del function
    assert alive() is None


def test_entries_of_a_dead_owner_go_with_the_next_change():
    function = fresh_function()
    first, second = Owner(), Owner()
    add_entry(function.__code__, GuardedCode(fresh_function().__code__, Guards(HOLDS_ALWAYS), first))
    assert entries(function.__code__)[0].owner is first
    del first
    assert entries(function.__code__)[0].owner is None
    entry = GuardedCode(fresh_function().__code__, Guards(HOLDS_ALWAYS), second)
    add_entry(function.__code__, entry)
    assert entries(function.__code__) == [entry]
    del second
    with pytest.raises(ReferenceError):
        add_entry(function.__code__, entry)


def test_owners_without_weak_references_are_kept():
    function = fresh_function()
    owner = ("a tuple", object())
    before = sys.getrefcount(owner)
    add_entry(function.__code__, GuardedCode(fresh_function().__code__, Guards(HOLDS_ALWAYS), owner))
    assert entries(function.__code__)[0].owner is owner
    drop_entries(function.__code__, owner)
    assert sys.getrefcount(owner) == before


def test_guards_in_a_cycle_are_collected():
    class Checker:
        def passes(self, value):
            return True

    checker = Checker()
    checker.guards = Guards((("root",), (("python", 0, checker.passes),), ()))
    checker.entry = GuardedCode(fresh_function().__code__, checker.guards, "owner")
    alive = weakref.ref(checker)
    del checker
    gc.collect()
    assert alive() is None


def run_hits():
    region(*arguments)


def run_misses():
    set_translator(lambda config, function, args: GuardedCode(replacement.__code__, Guards(FAILS_ALWAYS), config))
    region(*arguments)
    drop_entries(original.__code__)


def run_failing_translator():
    def translator(config, function, args):
        raise LookupError

    set_translator(translator)
    drop_entries(original.__code__)
    with pytest.raises(LookupError):
        region(*arguments)


def run_failing_transformed():
    with pytest.raises(ZeroDivisionError):
        region(0, *arguments[1:])


def run_whole_life():
    function = fresh_function("lambda a, b, *c, **d: (a, b)")
    add_entry(function.__code__, GuardedCode(replacement.__code__, Guards(EVERY_GUARD, EVERY_RELATION), config))
    Region(function, config)(*arguments)


def run_outside():
    Outside(replacement)(1, 2, (), {})


def run_malformed_guards():
    with pytest.raises(ValueError, match="unknown accessor"):
        Guards((("arg", 0), (("equals", 1, (1, 2)),), ((("global", "x"), (), ((("nowhere",), (), ()),)),)))
    with pytest.raises(ValueError, match="unknown relation"):
        Guards(EVERY_GUARD, (*EVERY_RELATION, ("nothing", 0, (0, 1), None, None)))


config = Owner()
arguments = (1.5, [2], "three")


def original(a, b, *c, **d):
    return a, b


def replacement(a, b, c, d):
    return 1 / a, b


region = Region(original, config)

EVERY_GUARD = (
    ("root",),
    (("python", 0, lambda value: True),),
    (
        (("arg", 0), (("equals", 2, 1.5), ("type", 3, float), ("is", 4, 1.5)), ()),
        (("arg", 1), (("length", 5, 1), ("true", 6)), ((("item", 0), (("absent", 7),), ()),)),
        (("arg", 3), (("keys", 8, ()), ("is", 9, Owner)), ((("key", "k"), (("absent", 10),), ()),)),
        (("global", "config"), (("is", 11, config),), ((("attr", "nothing"), (("absent", 12),), ()),)),
        (("call", gc.isenabled), (("tensor", 13, (int, 1, 2, None, (1, None), (2, 3), (("a", 1),))),), ()),
        (("arg", 1), (("keep", 1, 0),), ()),
        (("arg", 2), (("keep", 1, 1),), ()),
    ),
)
EVERY_RELATION = (
    ("relation", 1, (), None, lambda *slots: True),
    ("distinct", 14, (0, 1), 1, None),
    ("same", 15, (1, 1), None, None),
    ("memory", 16, (0, 1), ((4, -1, 0), (4, 0, 8)), lambda *slots: True),
    ("condition", 17, (0,), (("number", 0, 0),), lambda *slots: True),
)

SCENARIOS = [
    run_hits,
    run_misses,
    run_failing_translator,
    run_failing_transformed,
    run_whole_life,
    run_outside,
    run_malformed_guards,
]


def blocks_after(scenario, times):
    """Allocated memory blocks after a number of runs."""
    for _ in range(times):
        scenario()
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_ten_thousand_runs_leave_nothing_behind(scenario):
    add_entry(original.__code__, GuardedCode(replacement.__code__, Guards(HOLDS_ALWAYS), config))
    watched = (config, original, replacement, original.__code__, replacement.__code__, None, *arguments)
    blocks = blocks_after(scenario, 200)
    references = [sys.getrefcount(item) for item in watched]
    assert blocks_after(scenario, 10_000) - blocks < 500
    grown = [sys.getrefcount(item) - old for item, old in zip(watched, references, strict=True)]
    assert max(grown) < 100
    drop_entries(original.__code__)
    set_translator(None)


def test_arguments_die_with_the_call(script):
    def function(x):
        return None

    calls = script.replace(function, lambda x: weakref.ref(x))
    alive = [calls(Owner()) for _ in range(2)]
    script.asked.clear()
    assert [reference() for reference in alive] == [None, None]


def test_an_entry_dropped_while_it_runs_lives_until_it_returns():
    function = fresh_function()
    code = fresh_function("lambda x: (x(), [i for i in (1, 2)], 'still here')[2]").__code__
    add_entry(function.__code__, GuardedCode(code, Guards(HOLDS_ALWAYS), config))
    del code
    assert Region(function, config)(lambda: (drop_entries(function.__code__), gc.collect())) == "still here"
