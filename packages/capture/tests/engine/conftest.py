"""Tests of the C engine alone: they need Python, pytest and the built extension, but neither torch nor capture.

``CAPTURE_ENGINE`` names another build of the extension to test, such as one made with sanitizers.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
import sysconfig
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "src" / "capture"


def package() -> Path:
    """Where the sources are, or an installed package, which is found without being imported."""
    if not SOURCES.is_dir() and (installed := importlib.util.find_spec("capture")) is not None:
        return Path(installed.submodule_search_locations[0])
    return SOURCES


def built_engine() -> Path:
    return package() / f"_engine{sysconfig.get_config_var('EXT_SUFFIX')}"


def load(name: str, path: str | Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


engine = sys.modules["engine_under_test"] = load("capture._engine", os.environ.get("CAPTURE_ENGINE", built_engine()))
sys.modules["arithmetic_of_guards"] = load("arithmetic_of_guards", package() / "guards" / "arithmetic.py")

HOLDS_ALWAYS = (("root",), (), ())


class Config:
    """Stands for a configuration: only its identity matters to the engine."""


class Script:
    """A translator that follows a script: which function's calls are replaced by which, and under which guards."""

    def __init__(self) -> None:
        self.config = Config()
        self.asked: list[tuple[FunctionType, tuple]] = []
        self.replacements: dict[str, tuple] = {}
        self.otherwise = engine.SKIP_ALWAYS

    def __call__(self, config, function, args):
        self.asked.append((function, args))
        if function.__name__ not in self.replacements:
            return self.otherwise
        replacement, spec = self.replacements[function.__name__]
        return engine.GuardedCode(replacement.__code__, engine.Guards(spec), config)

    def replace(self, function, replacement, spec=HOLDS_ALWAYS):
        """Returns ``function`` such that its calls run ``replacement`` while ``spec`` holds."""
        self.replacements[function.__name__] = (replacement, spec)
        return engine.Region(function, self.config)

    def names_asked(self) -> list[str]:
        return [function.__name__ for function, _ in self.asked]


@pytest.fixture(autouse=True)
def without_capture():
    """All copies of the extension in a process share its state: capture itself, where loaded, stands aside."""
    engine.set_translator(None)
    yield
    if (hook := sys.modules.get("capture.entry.hook")) is not None:
        hook.install()


@pytest.fixture
def script():
    """No garbage is collected meanwhile: callbacks of other people's would be among the functions asked for."""
    script = Script()
    gc.disable()
    engine.set_translator(script)
    yield script
    engine.set_translator(None)
    gc.enable()
    assert engine.active_config() is None
