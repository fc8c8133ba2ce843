"""CPython's own tests end the same way whether their functions are captured or not.

A few modules run by default; ``CPYTHON_TESTS=all`` runs every one of them (``nox -s cpython``).
"""

import importlib.util
import os

import pytest
from compare import differences

BY_DEFAULT = ["test_generators", "test_dataclasses"]
MODULES = ["test_collections", "test_contextlib"]
MODULES_TO_RUN = [*BY_DEFAULT, *(MODULES if os.environ.get("CPYTHON_TESTS") == "all" else ())]

EXPECTED: dict[str, str] = {}
"""Tests that see that they are captured, and what of it they see."""


@pytest.mark.skipif(importlib.util.find_spec("test.test_grammar") is None, reason="this Python comes without its tests")
@pytest.mark.parametrize("module", MODULES_TO_RUN)
def test_outcomes_are_the_same(module):
    different, captured = differences(module)
    assert not {name: pair for name, pair in different.items() if name not in EXPECTED}
    assert not captured["mistakes"]
