"""CPython's own tests end the same way whether their functions are captured or not.

A few modules run by default; ``CPYTHON_TESTS=all`` runs every one of them (``nox -s cpython``).
"""

import builtins
import importlib.util
import os

import pytest
from compare import differences

BY_DEFAULT = ["test_contextlib", "test_generators"]
MODULES = [
    "test_abc",
    "test_asyncgen",
    "test_augassign",
    "test_bool",
    "test_builtin",
    "test_call",
    "test_class",
    "test_collections",
    "test_compare",
    "test_complex",
    "test_contains",
    "test_contextlib_async",
    "test_copy",
    "test_coroutines",
    "test_dataclasses",
    "test_decorators",
    "test_defaultdict",
    "test_descr",
    "test_dict",
    "test_dictcomps",
    "test_enumerate",
    "test_except_star",
    "test_exception_group",
    "test_exception_variations",
    "test_exceptions",
    "test_extcall",
    "test_float",
    "test_format",
    "test_fstring",
    "test_funcattrs",
    "test_generator_stop",
    "test_genexps",
    "test_grammar",
    "test_int",
    "test_isinstance",
    "test_iter",
    "test_keywordonlyarg",
    "test_list",
    "test_listcomps",
    "test_named_expressions",
    "test_operator",
    "test_patma",
    "test_positional_only_arg",
    "test_property",
    "test_raise",
    "test_range",
    "test_reprlib",
    "test_scope",
    "test_set",
    "test_setcomps",
    "test_slice",
    "test_string",
    "test_super",
    "test_tuple",
    "test_types",
    "test_unpack",
    "test_unpack_ex",
    "test_userdict",
    "test_userlist",
    "test_weakset",
    "test_with",
    "test_yield_from",
]

_COUNTS = ("test_for_2", "test_for_3", "test_for_4", "test_for_6")
_CONVERSIONS = ("test_denial_of_service_prevented_int_to_str", "test_denial_of_service_prevented_str_to_int")
EXPECTED = {
    "test.test_dict.DictTest.test_splittable_popitem": "how many bytes a dict takes",
    "test.test_descr.SharedKeyTests.test_subclasses": "how many bytes a dict takes",
    "test.test_descr.ClassPropertiesAndMethods.test_slots": "how many objects there are, ours among them",
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


def to_run():
    chosen = [*BY_DEFAULT, *(MODULES if os.environ.get("CPYTHON_TESTS") == "all" else ())]
    return [module for module in chosen if importlib.util.find_spec(f"test.{module}")]  # some releases lack some


def is_of_the_test(mistake):
    """Some tests take away builtins that we need, too."""
    error = mistake.strip().splitlines()[-1]
    return any(f"NameError: name '{name}' is not defined" in error for name in vars(builtins))


@pytest.mark.skipif(importlib.util.find_spec("test.test_grammar") is None, reason="this Python comes without its tests")
@pytest.mark.parametrize("module", to_run())
def test_outcomes_are_the_same(module):
    different, captured = differences(module)
    assert not {name: pair for name, pair in different.items() if name not in EXPECTED}
    assert not [mistake for mistake in captured["mistakes"] if not is_of_the_test(mistake)]
