"""What a new user tries in the first ten minutes, with nothing but installed wheels.

Each step ends in a right result or in a sentence that says what to do.  ``nox -s newcomer`` runs it in an environment
with nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
STEPS: list[Callable[[Path], None]] = []

README = "README.md"
PREAMBLE = "import torch, compile_api\nf = compile_api.compile(lambda x: torch.sin(x) + 1)\nx = torch.randn(9)\n"


def step(function: Callable[[Path], None]) -> Callable[[Path], None]:
    STEPS.append(function)
    return function


def command(*arguments: str, folder: Path, fails: bool = False, **env: str) -> str:
    """Runs a command as a user would, in an empty folder; returns what it printed."""
    done = subprocess.run(
        arguments, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )  # fmt: skip
    text = done.stdout + done.stderr
    assert (done.returncode != 0) == fails, f"{arguments} ended with {done.returncode}:\n{text}"
    return text


def python(program: str, folder: Path, *, fails: bool = False, **env: str) -> str:
    (folder / "program.py").write_text(program)
    return command(sys.executable, "program.py", folder=folder, fails=fails, **env)


def says(text: str, *parts: str) -> None:
    for part in parts:
        assert part in text, f"nothing says {part!r}:\n{text}"


@step
def it_is_installed_and_verifies(folder: Path) -> None:
    tool = str(Path(sysconfig.get_path("scripts")) / "compile-api")
    says(
        command(tool, "verify", folder=folder),
        "compiled and ran a function on cpu",
        "everything that is needed is here",
    )
    says(command(tool, "info", folder=folder), "compile-api-capture", "backends:")
    says(command(tool, "--help", folder=folder), "verify", "run a program")


@step
def the_readmes_lines_run(folder: Path) -> None:
    lines = (ROOT / README).read_text().split("```python\n")[1].split("```")[0]
    says(python(lines, folder), "kernels            1", "compile time")


@step
def a_break_is_explained(folder: Path) -> None:
    program = """
import torch, compile_api
def f(x):
    if x.sum() > 0:
        return x + 1
    return x - 1
print(compile_api.explain(f)(torch.ones(3)))
"""
    says(python(program, folder), "graph breaks (1)", "program.py:4 in f", "if x.sum() > 0:", "try: ")


@step
def a_backend_without_its_package_says_how_to_get_it(folder: Path) -> None:
    program = """
import importlib.util, compile_api
known = importlib.util.find_spec           # as if it were not installed, wherever this runs
importlib.util.find_spec = lambda name, *rest: None if name.startswith("onnx") else known(name, *rest)
compile_api.compile(lambda x: x, backend="onnxrt")
"""
    text = python(program, folder, fails=True)
    says(text, "BackendNotReady", "needs onnx", "pip install onnx onnxruntime")


@step
def a_wrong_option_backend_and_mode_are_met_with_the_right_ones(folder: Path) -> None:
    for wrong, right in (
        ("options={'debgu': True}", "did you mean 'debug'"),
        ("backend='inducter'", "did you mean 'inductor'"),
        ("mode='max-autotun'", "did you mean 'max-autotune'"),
        ("options={'check': 3}", "True or False, not 3"),
    ):
        program = f"import compile_api\ncompile_api.compile(lambda x: x, {wrong})\n"
        says(python(program, folder, fails=True), right)


@step
def without_a_cache_folder_it_is_right_and_said(folder: Path) -> None:
    (folder / "file").write_text("no folder")
    check = "torch.testing.assert_close(f(x), torch.sin(x) + 1); print('right')\n"
    text = python(PREAMBLE + check, folder, COMPILE_API_CACHE=str(folder / "file" / "cache"))
    says(text, "right")
    verified = command(
        sys.executable, "-m", "compile_api", "verify", folder=folder, fails=True,
        COMPILE_API_CACHE=str(folder / "file" / "cache"),
    )  # fmt: skip
    says(verified, "MISSING  cache folder", "set COMPILE_API_CACHE to a folder that can be written")


@step
def without_a_compiler_it_is_right_and_says_what_to_install(folder: Path) -> None:
    check = "torch.testing.assert_close(f(x), torch.sin(x) + 1); print('right'); print(compile_api.report(f))\n"
    env = {"CXX": str(folder / "none"), "COMPILE_API_CACHE": str(folder / "cache")}
    says(python(PREAMBLE + check, folder, **env), "right", "refused", "none")
    verified = command(sys.executable, "-m", "compile_api", "verify", folder=folder, fails=True, **env)
    says(verified, "no C++ compiler", "apt install g++")


@step
def an_empty_path_is_no_compiler_either(folder: Path) -> None:
    check = "torch.testing.assert_close(f(x), torch.sin(x) + 1); print('right')\n"
    says(python(PREAMBLE + check, folder, PATH=str(folder), COMPILE_API_CACHE=str(folder / "cache")), "right")


@step
def an_existing_program_is_served(folder: Path) -> None:
    (folder / "theirs.py").write_text(
        "import torch\nf = torch.compile(lambda x: torch.sin(x) + 1)\nprint(f(torch.zeros(2)).tolist())\n"
    )
    text = command(sys.executable, "-m", "compile_api", "run", "--report", "theirs.py", folder=folder)
    says(text, "[1.0, 1.0]", "kernels            1")


@step
def torchs_compiler_finds_our_backend(folder: Path) -> None:
    program = "import torch\nf = torch.compile(lambda x: torch.sin(x) + 1, backend='compile_api')\n"
    says(python(program + "print(f(torch.zeros(2)).tolist())\n", folder), "[1.0, 1.0]")


def main() -> None:
    for each in STEPS:
        with tempfile.TemporaryDirectory() as folder:
            each(Path(folder))
        print(f"ok  {each.__name__.replace('_', ' ')}", flush=True)


if __name__ == "__main__":
    main()
