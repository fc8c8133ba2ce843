"""What is known of CPython's tests that do not end alike."""

import sys

_GARBAGE = "how many objects there are: an object's `__dict__` is made when somebody looks, as evaluation does"
_REFERENCES = "how many references a constant has, those of guards among them"
_SPECIALISED = "how often code ran, by its specialised instructions"
_OBSERVED = "who is told of what runs by `sys.monitoring` is told of the evaluator, too"
_ALWAYS = {
    "test.test_descr.ClassPropertiesAndMethods.test_slots": _GARBAGE,
    **{
        f"test.test_memoryview.Bytes{name}Test.test_getbuffer": _REFERENCES
        for name in ("Memoryview", "MemorySlice", "MemorySliceSlice")
    },
}
_UNTIL_312 = {
    **{f"test.test_dis.{name}.test_loop_quicken": _SPECIALISED for name in ("DisTests", "DisWithFileTests")},
    **{
        f"test.test_gc.{name}": _GARBAGE
        for name in (
            "GCCallbackTests.test_collect_garbage",
            "GCTests.test_boom2",
            "GCTests.test_resurrection_does_not_block_cleanup_of_other_objects",
        )
    },
}
_ONLY_311 = {"test.test_gc.GCTests.test_boom2_new": _GARBAGE}
_TRACED = ("SkipLineEventsTrace", "TestLinesAfterTraceStarted", "TestSetLocalTrace", "TraceOpcodes", "Trace")
_SINCE_312 = {
    "test.test_cprofile.CProfileTest.test_cprofile": _OBSERVED,
    "test.test_monitoring.": _OBSERVED,
    **{
        f"test.test_sys_settrace.{name if name.startswith('Test') else name + 'TestCase'}.test_20_async_for_loop": (
            "around a frame evaluator CPython awaits by its general way, which tells tracers of the StopIteration"
        )
        for name in _TRACED
    },
}
_SINCE_313 = {
    f"test.test_opcache.TestRacesDoNotCrash.{name}": _SPECIALISED
    for name in (
        "test_binary_subscr_getitem", "test_for_iter_gen", "test_load_attr_getattribute_overridden",
        "test_load_attr_property",
    )
}  # fmt: skip
EXPECTED = {
    **_ALWAYS,
    **(_ONLY_311 if sys.version_info < (3, 12) else _SINCE_312),
    **(_UNTIL_312 if sys.version_info < (3, 13) else _SINCE_313),
}
"""Tests that see that they are captured, and what of it they see; of a module with a dot behind it, some of all."""

_CONVERSION = "test_denial_of_service_prevented_int_to_str", "test_denial_of_service_prevented_str_to_int"
TIMED = {
    f"test.test_int.{kind}StrDigitLimitsTests.{name}": "whether a conversion takes a 64th of a second"
    for kind in ("Int", "IntSubclass")
    for name in _CONVERSION
}
"""Tests that end as the machine's speed will have it, captured or not."""


def known(name):
    return name in TIMED or name in EXPECTED or any(name.startswith(entry) for entry in EXPECTED if entry[-1] == ".")


def is_stale(entry, found, modules):
    """Whether an entry is of a module that was compared, and did not differ."""
    return entry.startswith(modules) and not any(name.startswith(entry) for name in found)
