"""Other frame evaluators than ours: below it, on top of it, and left there."""

import importlib.util
import subprocess
from pathlib import Path

import pytest
from engine_under_test import Region

HERE = Path(__file__).resolve().parent


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    compiler, include = load("builder", HERE.parents[1] / "csrc" / "build.py").find_tools()
    library = tmp_path_factory.mktemp("foreign") / "foreign_evaluator.so"
    command = [*compiler, "-shared", "-fPIC", f"-I{include}", str(HERE / "foreign_evaluator.c"), "-o", str(library)]
    subprocess.run(command, check=True, capture_output=True)
    return load("foreign_evaluator", library)


def original():
    return "original"


def transformed():
    return "transformed"


def test_an_evaluator_below_sees_what_it_would_have_seen(script, foreign):
    region = script.replace(original, transformed)
    foreign.install()
    try:
        assert [region(), original(), region()] == ["transformed", "original", "transformed"]
    finally:
        assert foreign.uninstall() >= 3


def test_an_evaluator_put_on_top_and_left_there_makes_no_circle(script, foreign):
    def leaves_it_there():
        foreign.install()
        return original()

    script.replace(original, transformed)
    region = Region(leaves_it_there, script.config)
    try:
        assert region() == "transformed"
        assert original() == "original"
        again = Region(original, script.config)
        assert [again(), again(), original()] == ["transformed", "transformed", "original"]
    finally:
        foreign.uninstall()
    assert [again(), original()] == ["transformed", "original"]
