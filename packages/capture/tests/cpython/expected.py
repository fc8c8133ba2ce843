"""What is known of CPython's tests that do not end alike."""

_COUNTS = ("test_for_2", "test_for_3", "test_for_4", "test_for_6")
_CONVERSIONS = ("test_denial_of_service_prevented_int_to_str", "test_denial_of_service_prevented_str_to_int")
_SPECIALISED = "how often code ran, by its specialised instructions"
EXPECTED = {
    "test.test_dict.DictTest.test_splittable_popitem": "how many bytes a dict takes",
    "test.test_descr.SharedKeyTests.test_subclasses": "how many bytes a dict takes",
    "test.test_descr.ClassPropertiesAndMethods.test_slots": "how many objects there are, ours among them",
    **{f"test.test_dis.{name}.test_loop_quicken": _SPECIALISED for name in ("DisTests", "DisWithFileTests")},
    "test.test_exceptions.ExceptionTests.testExceptionCleanupState": "what the frames of a traceback hold",
    "test.test_builtin.TestBreakpoint.test_envar_good_path_builtin": "how often `int` is called, by the evaluator too",
    **{f"test.test_coroutines.CoroutineTest.{name}": "how many references there are" for name in _COUNTS},
    "test.test_coroutines.OriginTrackingTest.test_origin_tracking": "how many frames there are",
    **{
        f"test.test_asyncgen.TestUnawaitedWarnings.{name}": "a warning of 3.13 about steps that nobody awaits"
        for name in ("test_aclose", "test_asend", "test_athrow")
    },
    "test.test_contextlib_async.TestAsyncExitStack.test_exit_exception_traceback": "how many frames there are",
    **{f"test.test_int.IntStrDigitLimitsTests.{name}": "how long a conversion takes" for name in _CONVERSIONS},
    **{f"test.test_int.IntSubclassStrDigitLimitsTests.{name}": "how long a conversion takes" for name in _CONVERSIONS},
}
"""Tests that see that they are captured, and what of it they see."""
