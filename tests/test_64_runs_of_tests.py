"""What the root's conftest does for every run: a line of progress, sweeps of which a part is drawn, and graphs
that have to be captured where frames are evaluated."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_a_long_run_tells_how_far_it_is(tmp_path):
    (tmp_path / "conftest.py").write_text(
        (ROOT / "conftest.py").read_text().replace("seconds: float = 30.0", "seconds: float = 0")
    )
    (tmp_path / "test_one.py").write_text("def test_one():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path]
    assert "1 tests done, 0 failed" in subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_sweeps_can_be_drawn(tmp_path):
    """The same cases in every process of a run, others in the next one; what has few cases is left as it is."""
    shutil.copy(ROOT / "conftest.py", tmp_path)
    swept = "import pytest\n@pytest.mark.parametrize('n', range(40))\ndef test_swept(n):\n    pass\n"
    (tmp_path / "test_one.py").write_text(swept + "def test_alone():\n    pass\n")
    (tmp_path / "test_torchs_insides.py").write_text(swept)
    options = ["-q", "-p", "no:cacheprovider", "--collect-only", "--draw", "3"]
    command = [sys.executable, "-m", "pytest", *options, tmp_path]
    seen = []
    for seed in ("1", "1", "2"):
        env = {**os.environ, "DRAW_SEED": seed}
        seen.append(subprocess.run(command, capture_output=True, text=True, check=False, env=env).stdout)
    assert [re.search(r"(\d+)/81 tests", said)[1] for said in seen] == ["44"] * 3
    cases = [re.findall(r"test_one.py::\S+", said) for said in seen]
    assert cases[0] == cases[1] != cases[2]
    assert all(any("test_alone" in case for case in found) for found in cases)


CAPTURING = """
import importlib, sys
import pytest, torch, capture

def captured(function):
    return capture.optimize(lambda gm, inputs: gm.forward)(function)

def idle(x):
    return x

def adding(x):
    return x + 1

def test_graph():
    assert captured(adding)(torch.ones(2))[0] == 2

def test_nothing():
    assert captured(idle)(1) == 1

def test_nothing_and_looked():
    capture.LOG.clear()
    assert captured(idle)(1) == 1
    assert not [each for each in capture.records() if isinstance(each, capture.GraphRecord)]

@pytest.mark.without_graphs("it computes nothing")
def test_said():
    assert captured(idle)(1) == 1

@pytest.mark.without_graphs("untrue")
def test_said_untruly():
    assert captured(adding)(torch.ones(2))[0] == 2

@pytest.mark.parametrize("function", [idle, adding])
@pytest.mark.without_graphs("it computes nothing", cases=["idle"])
def test_said_of_a_case(function):
    captured(function)(torch.ones(2))

def test_in_its_place(monkeypatch):
    translate = capture.entry.hook.translate
    monkeypatch.setattr("capture.entry.hook.translate", lambda *args: translate(*args))
    assert captured(idle)(1) == 1

def test_module_run_anew():
    importlib.reload(capture.log)
    importlib.reload(capture.entry.hook)

def test_nothing_after_it():
    test_nothing()

def test_graph_after_it():
    test_graph()
"""


def test_who_evaluates_frames_and_captures_nothing_is_told(tmp_path):
    """Captured or looked at, or said; and so it is after a test that replaced or ran anew what counts frames."""
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "test_one.py").write_text(CAPTURING)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", tmp_path]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    failed = set(re.findall(r"^FAILED \S*::(\w+)", said, re.MULTILINE))
    assert failed == {"test_nothing", "test_said_untruly", "test_in_its_place", "test_nothing_after_it"}, said
