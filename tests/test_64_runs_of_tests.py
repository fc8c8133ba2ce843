"""What the root's conftest does for every run: a line of progress, and sweeps of which a part is drawn."""

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
