"""What is released: versions, changelogs and wheels agree, and no file is half merged."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def release_check(*arguments):
    command = [sys.executable, ROOT / "tests/tools/release.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_versions_changelogs_and_ranges_agree():
    checked = release_check()
    assert checked.returncode == 0, checked.stdout


def test_a_release_without_its_wheels_is_refused(tmp_path):
    checked = release_check(tmp_path)
    assert "capture: no wheel compile_api_capture-" in checked.stdout
    assert checked.returncode == 1


def test_no_file_holds_what_a_merge_left_behind():
    """Wherever one stands: a document is not compiled, so nothing else would say so."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:  # a source archive: git is not here to say which files are ours
        names = [str(path) for path in ROOT.rglob("*.md")]
    else:
        names = [name for name in listed.stdout.split("\0") if name]
    marker = re.compile(rb"^(<{7} |>{7} |\|{7} |={7}$)", re.MULTILINE)
    assert names
    for path in (ROOT / name for name in names):
        if path.is_file():
            found = marker.search(path.read_bytes())
            assert found is None, f"{path} holds {found[0]!r} of a merge"
