"""CPython's own tests pass when every function they are made of went through the neutral bytecode and back."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROUND_TRIPPED = """
import sys
sys.path.insert(0, {here!r})
import conftest  # makes the package importable
import importlib._bootstrap_external as external
from types import CodeType
from capture.bytecode.assembler import assemble
from capture.bytecode.instructions import Body

def round_trip(code):
    consts = tuple(round_trip(const) if isinstance(const, CodeType) else const for const in code.co_consts)
    code = code.replace(co_consts=consts)
    return assemble(Body.from_code(code), code)

read = external.SourceLoader.get_code
external.SourceLoader.get_code = lambda self, name: round_trip(read(self, name))
import signal
import unittest
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have had it ignored
unittest.main(module=None, argv=["-", *sys.argv[1:]])
"""

# Between them: all statements, generators, coroutines, tracing line by line, exceptions in every position.
MODULES = [
    "test_grammar", "test_generators", "test_with", "test_patma", "test_scope", "test_super", "test_sys_settrace",
    "test_raise", "test_except_star", "test_listcomps", "test_coroutines", "test_unpack_ex", "test_named_expressions",
    "test_contextlib",
]  # fmt: skip


@pytest.mark.skipif(importlib.util.find_spec("test.test_grammar") is None, reason="this Python comes without its tests")
def test_cpython_tests_round_tripped():
    here = Path(__file__).parent
    search = os.pathsep.join([str(here.parents[1] / "src"), *filter(None, sys.path)])
    result = subprocess.run(
        [sys.executable, "-c", ROUND_TRIPPED.format(here=str(here)), *(f"test.{name}" for name in MODULES)],
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
