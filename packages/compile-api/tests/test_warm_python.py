"""A program in a fork finds what it finds in a process of its own."""

import subprocess
import sys

import pytest

LOOKS = """
import inspect, os, sys
def f(): pass
found = sys.modules["__main__"]
print(sys.argv, __name__, found.f is f, sys.path[0], os.getcwd(), os.environ.get("OF_THIS_TEST"))
print(found.__dict__.get("__file__"), sys.stdin.read() == "", "compile_api" in sys.modules, file=sys.stderr)
"""
ENDS = ["", "import sys; sys.exit(7)", "raise ValueError('mine')", "import os; os.kill(os.getpid(), 9)",
        "import atexit; atexit.register(print, 'last')"]  # fmt: skip


def in_its_own(*arguments, cwd, env):
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("how", [("-c", LOOKS), ("program.py",), ("-m", "program")], ids=lambda how: how[0])
def test_programs_find_what_they_would(how, end, tmp_path, monkeypatch, python):
    monkeypatch.setenv("OF_THIS_TEST", "set")
    (tmp_path / "program.py").write_text(LOOKS + end)
    arguments = [*(f"{LOOKS}\n{end}" if part == LOOKS else part for part in how), "--flag", "3"]
    warm = python(*arguments, cwd=tmp_path)
    cold = in_its_own(*arguments, cwd=tmp_path, env=None)
    assert (warm.returncode, warm.stdout) == (cold.returncode, cold.stdout)
    assert warm.stderr.splitlines()[:1] == cold.stderr.splitlines()[:1]
    assert warm.stderr.splitlines()[-1:] == cold.stderr.splitlines()[-1:]


def test_torch_is_there_and_nothing_of_ours(python):
    program = (
        "import sys; print('torch' in sys.modules, [name for name in ('capture', 'inductor') if name in sys.modules])"
    )
    assert python("-c", program).stdout == "True []\n"


def test_what_is_read_at_the_start_gets_a_process_that_reads_it(python):
    program = "import sys; print('torch' in sys.modules, sys.flags.optimize)"
    assert python("-c", program, PYTHONOPTIMIZE="2").stdout == "False 2\n"
