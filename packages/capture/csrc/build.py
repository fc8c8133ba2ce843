"""Builds the C engine with the compiler Python itself was built with, or the one named by ``CC``; adds ``CFLAGS``.

Needs nothing but the standard library, so that a source checkout is usable wherever there is a compiler.  Knows
nothing of packaging: ``hatch_build.py`` does.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

CSRC = Path(__file__).resolve().parent
FLAGS = ["-std=c11", "-O3", "-fPIC", "-fvisibility=hidden"]
WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-missing-field-initializers", "-Wno-cast-function-type"]
LINKING = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]


class CannotBuildError(RuntimeError):
    """Something that the build needs is not on this machine; the message says what to install."""


def file_name() -> str:
    """The name of the extension's file for this interpreter."""
    return f"_engine{sysconfig.get_config_var('EXT_SUFFIX')}"


def find_tools() -> tuple[list[str], Path]:
    """The compiler's command and the folder of Python.h, or an error that says what is missing."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        compiler = next(([name] for name in ("cc", "gcc", "clang") if shutil.which(name)), [])
    if not compiler:
        raise CannotBuildError(
            "capture's C engine cannot be built because no C compiler was found: install one with "
            "`apt install gcc` (Debian, Ubuntu), `dnf install gcc` (Fedora) or `conda install gcc_linux-64` (conda)."
        )
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").is_file():
        raise CannotBuildError(
            f"capture's C engine cannot be built because {include / 'Python.h'} was not found: install the headers of "
            "this Python with `apt install python3-dev` (Debian, Ubuntu), `dnf install python3-devel` (Fedora) or "
            "`conda install python` (conda, whose python brings them)."
        )
    return compiler, include


def build(target: Path) -> Path:
    """Compiles the engine to ``target`` and returns it."""
    compiler, include = find_tools()
    sources = sorted(str(source) for source in CSRC.glob("*.c"))
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(f".{os.getpid()}.tmp")
    flags = [*FLAGS, *WARNINGS, *shlex.split(os.environ.get("CFLAGS", "")), *LINKING]
    command = [*compiler, *flags, f"-I{include}", *sources, "-o", str(unfinished)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    sys.stderr.write(result.stderr)
    if result.returncode:
        raise CannotBuildError(f"capture's C engine did not compile: {shlex.join(command)}\n{result.stderr}")
    unfinished.replace(target)  # a process that has loaded the file of before keeps it
    return target


def build_in_place() -> Path:
    """Builds beside the Python sources, where a checkout imports it from."""
    return build(CSRC.parent / "src" / "capture" / file_name())


if __name__ == "__main__":
    print(build(Path(sys.argv[1])) if len(sys.argv) > 1 else build_in_place())
