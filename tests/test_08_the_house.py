"""The rules of the house are checked by tools; these tests check the tools."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RUFF = shutil.which("ruff", path=str(Path(sys.executable).parent)) or shutil.which("ruff")


@pytest.mark.skipif(RUFF is None, reason="ruff is installed by the lint session; it need not be here")
@pytest.mark.parametrize(
    "line",
    ["import torch._dynamo", "from torch._inductor import config", "import torch\ntorch.compile(len)",
     "from torch._functorch.aot_autograd import aot_function", "import torch\ntorch.export.export(None, ())"],
)  # fmt: skip
def test_the_peers_modules_are_banned_in_packages(line):
    checked = subprocess.run(
        [RUFF, "check", "--select", "TID251", "--stdin-filename", "packages/inductor/src/inductor/x.py", "-"],
        input=line + "\n", capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert "TID251" in checked.stdout


def test_every_package_has_its_papers():
    for folder in (ROOT / "packages").iterdir():
        for name in ("README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"):
            assert (folder / name).is_file(), f"{folder.name} lacks {name}"
        assert list(folder.glob("src/*/py.typed"))


def test_modules_stay_small():
    for path in (ROOT / "packages").rglob("src/**/*.py"):
        lines = path.read_text().count("\n")
        assert lines <= 700, f"{path.relative_to(ROOT)} has {lines} lines: split it by subject"


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


def test_a_long_run_tells_how_far_it_is(tmp_path):
    (tmp_path / "conftest.py").write_text(
        (ROOT / "conftest.py").read_text().replace("seconds: float = 30.0", "seconds: float = 0")
    )
    (tmp_path / "test_one.py").write_text("def test_one():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path]
    assert "1 tests done, 0 failed" in subprocess.run(command, capture_output=True, text=True, check=False).stdout


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
