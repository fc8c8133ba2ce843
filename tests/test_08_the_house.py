"""The rules of the house are checked by tools; these tests check the tools."""

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
