"""Another project's module in an engine's place gets a sentence that says what to do."""

import subprocess
import sys

import pytest


def import_beside(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    program = f"import sys; sys.path.insert(0, {str(folder)!r}); import compile_api"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize("engine", ["capture", "cudagraphs"])
def test_a_strangers_module_is_named(tmp_path, engine):
    said = import_beside(tmp_path, **{engine: "VERSION = 1"})
    assert f"the `{engine}` that Python finds" in said
    assert f"pip install --force-reinstall compile-api-{engine}" in said


def test_an_engine_that_is_not_there_is_to_be_installed(tmp_path):
    hide = "import sys; sys.modules['inductor'] = None; import compile_api"
    said = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True, check=False).stderr
    assert "pip install compile-api-inductor" in said


def test_trouble_of_others_is_left_to_speak_for_itself(tmp_path):
    assert "No module named 'sysconfig_of_mine'" in import_beside(tmp_path, cudagraphs="import sysconfig_of_mine")
