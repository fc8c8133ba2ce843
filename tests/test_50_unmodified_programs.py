"""Programs that know nothing of us, run as they are: ``python -m compile_api run program.py``."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
# torchvision's wheel may be built for another torch; what is in this folder lets transformers import it all the same.
TOOLS = str(Path(__file__).parent / "tools" / "without_vision")


def needs(*modules):
    """Asked without importing them: the programs do that, in processes of their own."""
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    if absent:
        pytest.skip(f"{', '.join(absent)} not installed")


def run(program, *arguments, served, folder):
    command = [sys.executable, *(["-m", "compile_api", "run", "--report"] if served else []), str(PROGRAMS / program)]
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), TOOLS]))
    done = subprocess.run(
        [*command, *arguments], env={**os.environ, "PYTHONPATH": path, "COMPILE_API_STRICT": "0"},
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def losses(out):
    found = re.search(r"^losses (\[.*\])$", out, re.MULTILINE)
    return ast.literal_eval(found[1])


def kernels(report):
    return sum(map(int, re.findall(r"^kernels +(\d+)", report, re.MULTILINE)))


def test_a_trainer_of_transformers_with_torch_compile(tmp_path):
    needs("transformers", "accelerate")
    plain, _ = run("trainer.py", "eager", served=False, folder=tmp_path)
    ours, report = run("trainer.py", "ours", "--compile", served=True, folder=tmp_path)
    assert losses(ours) == pytest.approx(losses(plain), abs=2e-3)
    assert "saved True" in ours
    assert "1 calls of torch.compile" in report
    assert kernels(report) > 10


@pytest.mark.parametrize("extra", [[], ["--amp"]], ids=["float32", "autocast"])
def test_a_loop_of_timm(extra, tmp_path):
    needs("timm")
    plain, _ = run("image_loop.py", *extra, served=False, folder=tmp_path)
    ours, report = run("image_loop.py", "--compile", *extra, served=True, folder=tmp_path)
    assert losses(ours) == pytest.approx(losses(plain), abs=0.3 if extra else 3e-3)
    assert "keys ['_orig_mod.conv1.0.weight'" in ours, "as the wrapper that torch.compile gives"
    assert kernels(report) > 10
