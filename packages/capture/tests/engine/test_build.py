"""Building the engine: from a checkout with a compiler alone, and what is said where something is missing."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2]


@pytest.fixture
def builder():
    spec = importlib.util.spec_from_file_location("builder_under_test", PACKAGE / "csrc" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_without_a_compiler_the_error_says_what_to_install(builder, monkeypatch):
    monkeypatch.setattr(builder.shutil, "which", lambda name: None)
    with pytest.raises(builder.CannotBuildError) as caught:
        builder.find_tools()
    message = str(caught.value)
    assert "no C compiler was found" in message
    assert all(command in message for command in ("apt install gcc", "dnf install gcc", "conda install gcc_linux-64"))


def test_without_headers_the_error_says_what_to_install(builder, monkeypatch, tmp_path):
    monkeypatch.setattr(builder.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(builder.CannotBuildError) as caught:
        builder.find_tools()
    message = str(caught.value)
    assert f"{tmp_path / 'Python.h'} was not found" in message
    assert all(command in message for command in ("apt install python3-dev", "dnf install python3-devel", "conda"))


def test_a_compiler_named_by_CC_is_taken_with_its_arguments(builder, monkeypatch):
    monkeypatch.setenv("CC", f"{sys.executable} -v")
    compiler, include = builder.find_tools()
    assert compiler == [sys.executable, "-v"]
    assert (include / "Python.h").is_file()


def test_errors_of_the_compiler_are_shown(builder, monkeypatch, tmp_path):
    monkeypatch.setenv("CFLAGS", "-no-such-flag")
    with pytest.raises(builder.CannotBuildError, match="no-such-flag"):
        builder.build(tmp_path / "engine.so")
    assert not (tmp_path / "engine.so").exists()


def test_a_build_can_be_loaded(builder, tmp_path, capfd):
    built = builder.build(tmp_path / builder.file_name())
    assert capfd.readouterr().err == "", "the compiler has nothing to warn of"
    script = (
        "import importlib.util as u, sys; s = u.spec_from_file_location('capture._engine', sys.argv[1]);"
        "m = u.module_from_spec(s); s.loader.exec_module(m); print(m.SKIP_ONCE, m.counters()['frames'])"
    )
    output = subprocess.run([sys.executable, "-c", script, built], capture_output=True, text=True, check=True).stdout
    assert output.split() == ["SKIP_ONCE", "0"]
