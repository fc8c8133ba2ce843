"""Processes that run the program of the mutation test, each a fresh one, for whoever tests what they take up."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
STORED = HERE.parents[1] / "packages/capture/tests/stored"
sys.path.insert(0, str(STORED))

from mutations import AROUND, CHANGES, IMPORTS, KEPT, TEXTS  # noqa: E402 - the folder is known now

__all__ = ["AROUND", "CHANGES", "IMPORTS", "KEPT", "STORED", "TEXTS", "Worker", "as_it_was", "changed"]


class Worker:
    """Their hashes of texts are those of ``seed``; ``first`` is run ahead of every change."""

    def __init__(self, seed, script="worker.py", first="torch.set_grad_enabled(False)"):
        self.first = first
        self.process = subprocess.Popen(
            [sys.executable, HERE / script],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __call__(self, folder, store, before="", around="contextlib.nullcontext()"):
        before = f"{self.first}\n{before}"
        self.process.stdin.write(json.dumps([str(folder), str(store), before, around]) + "\n")
        self.process.stdin.flush()
        told = json.loads(self.process.stdout.readline())
        assert "crash" not in told, told["crash"]
        return told

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def changed(file, old, new, folder):
    """Another text of the program."""
    text = (folder / file).read_text()
    assert old in text
    other = "class Other(Base):\n    def act(self, x):\n        return x.exp()\n\n\nclass Net("
    (folder / file).write_text(text.replace(old, new).replace("class Net(", other))
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)


def as_it_was(folder):
    for file in ("program.py", "helper.py"):
        shutil.copy2(STORED / file, folder / file)
