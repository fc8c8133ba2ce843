"""CPython's own tests pass while every function they call runs as transformed code."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import engine_under_test
import pytest

SCRIPT = Path(__file__).resolve().parent / "stand_for_itself.py"
SYNTAX = ["grammar", "scope", "super", "generators", "coroutines", "decorators", "with"]
CALLS = ["call", "extcall", "keywordonlyarg", "positional_only_arg"]
LIBRARIES = ["functools", "frame", "dataclasses", "enum"]


@pytest.mark.skipif(importlib.util.find_spec("test.test_grammar") is None, reason="this Python comes without its tests")
def test_replacing_every_function_by_itself_changes_nothing():
    names = [f"test.test_{name}" for name in SYNTAX + CALLS + LIBRARIES]
    command = [sys.executable, SCRIPT, engine_under_test.__file__, *names]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    failed, _, hits = output.rpartition("hits: ")
    assert failed == ""
    assert int(hits) > 100_000
