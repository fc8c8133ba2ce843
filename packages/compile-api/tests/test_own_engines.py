"""Another project's module in an engine's place gets a sentence that says what to do."""

import pytest


def import_beside(python, folder, **files):
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    program = f"import sys; sys.path.insert(0, {str(folder)!r}); import compile_api"
    return python("-c", program).stderr


@pytest.mark.parametrize("engine", ["capture", "cudagraphs"])
def test_a_strangers_module_is_named(tmp_path, engine, python):
    said = import_beside(python, tmp_path, **{engine: "VERSION = 1"})
    assert f"the `{engine}` that Python finds" in said
    assert f"pip install --force-reinstall compile-api-{engine}" in said


def test_an_engine_that_is_not_there_is_to_be_installed(python):
    hide = "import sys; sys.modules['inductor'] = None; import compile_api"
    said = python("-c", hide).stderr
    assert "pip install compile-api-inductor" in said


def test_trouble_of_others_is_left_to_speak_for_itself(tmp_path, python):
    assert "No module named 'sysconfig_of_mine'" in import_beside(
        python, tmp_path, cudagraphs="import sysconfig_of_mine"
    )
