"""Runs Python programs in processes that have torch already: forks of one that imported it, and nothing of ours.

A program finds what it would find in a process of its own after ``import torch``: its arguments, environment, folder,
``__main__``, standard streams and end.  One whose environment differs in what Python, torch or their libraries read
while they start gets a real process, as should all whose subject is how a process starts.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

READ_AT_THE_START = (
    "PYTHON", "LD_", "LC_", "LANG", "OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "ONEDNN_", "DNNL_",
    "TORCH", "PYTORCH", "ATEN_", "CUDA", "NVIDIA", "TRITON",
)  # fmt: skip


class WarmPython:
    """``run("program.py", "--flag", cwd=folder)`` is ``subprocess.run([sys.executable, ...])``, output captured."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[str] | None = None
        self._start: dict[str, str] = {}

    def run(self, *arguments: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        request: dict[str, Any] = {"arguments": arguments, "cwd": str(cwd or Path.cwd()), "env": {**os.environ, **env}}
        start = _read_at_the_start(request["env"])
        if self._server is None:
            command, pipe = [sys.executable, __file__], subprocess.PIPE
            self._server = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
            self._start = _read_at_the_start(os.environ)
        if start != self._start:
            command = [sys.executable, *arguments]
            return subprocess.run(command, env=request["env"], cwd=cwd, capture_output=True, text=True, check=False)
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            code = self._ask({**request, "out": str(out), "err": str(err)})
            return subprocess.CompletedProcess(arguments, code, out.read_text(), err.read_text())

    def _ask(self, request: dict[str, Any]) -> int:
        assert self._server is not None
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        try:
            print(json.dumps(request), file=self._server.stdin, flush=True)
            return int(self._server.stdout.readline())
        except BaseException:  # a program that ran out of time, for one: the next must not read its answer
            self.close()
            raise

    def close(self) -> None:
        if self._server is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._server.pid, signal.SIGKILL)
            with self._server:
                self._server = None


def _read_at_the_start(env: Any) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(READ_AT_THE_START)}


def _next_program() -> dict[str, Any] | None:
    """Forks for every request; in the child it is returned, in the parent its end is told."""
    with os.fdopen(os.dup(0)) as requests, os.fdopen(os.dup(1), "w") as answers:
        for line in requests:
            child = os.fork()
            if not child:
                return json.loads(line)  # type: ignore[no-any-return]
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)
    return None


def _run(request: dict[str, Any]) -> None:
    """What ``python`` does with its arguments: ``-c program``, ``-m module`` or a file."""
    for number, path in enumerate((os.devnull, request["out"], request["err"])):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    first, *rest = request["arguments"]
    sys.argv = [first, *rest[first in ("-c", "-m") :]]
    if not sys.flags.safe_path:
        sys.path[0] = {"-c": "", "-m": os.getcwd()}.get(first, str(Path(first).absolute().parent))
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if first == "-m":
        runpy._run_module_as_main(rest[0])  # type: ignore[attr-defined]
        return
    program, name = (rest[0], "<string>") if first == "-c" else (Path(first).read_text(), str(Path(first).absolute()))
    if first != "-c":
        main.__file__ = name
    exec(compile(program, name, "exec", dont_inherit=True), vars(main))


if __name__ == "__main__":
    import torch  # noqa: F401 - what all of this is for

    gc.freeze()
    if (found := _next_program()) is not None:
        _run(found)
