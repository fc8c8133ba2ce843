"""An engine that was built before the C sources changed is refused with a sentence that says what to do."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import capture
from capture import _engine, interface

NO_ENGINE, TEXT = shutil.ignore_patterns("_engine.*.so", "__pycache__"), {"capture_output": True, "text": True}
HEADER = Path(__file__).resolve().parents[1] / "csrc" / "engine.h"


def an_engine(**names):
    engine = ModuleType("capture._engine")
    vars(engine).update(names, __file__="/somewhere/_engine.so")
    return engine


@pytest.mark.parametrize("engine", [an_engine(), an_engine(INTERFACE=interface.INTERFACE - 1)])
def test_an_engine_of_before_is_refused(engine):
    with pytest.raises(
        ImportError, match=r"_engine.so are of different versions .*`python packages/capture/csrc/build"
    ):
        interface.require_engine_of(interface.INTERFACE, engine)


def test_the_built_engine_and_the_sources_agree():
    assert _engine.INTERFACE == interface.INTERFACE
    assert int(re.search(r"#define INTERFACE (\d+)", HEADER.read_text()).group(1)) == interface.INTERFACE


def test_an_engine_that_was_never_built_is_missed(tmp_path):
    folder = shutil.copytree(Path(capture.__file__).parent, tmp_path / "capture", ignore=NO_ENGINE)
    done = subprocess.run([sys.executable, "-c", "import capture"], env={"PYTHONPATH": str(folder.parent)}, **TEXT)
    assert done.stderr.splitlines()[-1].startswith("ImportError: capture's C engine is missing: build it with `python")
