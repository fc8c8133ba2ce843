"""A processor that lists AMX on a machine that forbids it is found out without dying of it."""

import signal
import subprocess
import sys

import pytest

from compile_api import processor


def test_a_processor_without_amx_needs_no_child_process():
    def never(_):
        pytest.fail("a child process was started")

    assert processor.needed_settings({}, listed=lambda: False, fails=never) == {}


@pytest.mark.parametrize(("dies", "needed"), [(True, processor.SETTING), (False, {})])
def test_amx_that_is_forbidden_is_switched_off(dies, needed):
    assert processor.needed_settings({}, listed=lambda: True, fails=lambda _: dies) == needed


def test_what_the_user_has_set_stands():
    mine = {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    assert processor.needed_settings(mine, listed=lambda: True, fails=lambda _: True) == {}


@pytest.mark.parametrize(
    ("end", "expected"), [(-signal.SIGILL, True), (0, False), (1, False), (-signal.SIGKILL, False)]
)
def test_only_an_illegal_instruction_counts(monkeypatch, end, expected):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], end))
    assert processor.dies({}) is expected


def test_the_script_imports_no_torch():
    script = f"runpy.run_path({processor.__file__!r}, run_name='__main__')"
    program = f"import runpy, sys; {script}; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
