"""What the root's conftest does for every run: a line of progress."""

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
