"""CPython's own tests end the same way whether their functions are captured or not.

A few modules run by default; ``CPYTHON_TESTS=all`` runs every one of them (``nox -s cpython``).
"""

import builtins
import importlib.util
import os

import pytest
from compare import differences
from expected import known

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
    assert not {name: pair for name, pair in different.items() if not known(name)}
    assert not [mistake for mistake in captured["mistakes"] if not is_of_the_test(mistake)]
