"""What one process compiled is taken up by the next one, as long as nothing has changed that matters."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
STORED = HERE.parent / "packages/capture/tests/stored"
sys.path.insert(0, str(STORED))

from mutations import AROUND, CHANGES, IMPORTS, KEPT, TEXTS  # noqa: E402 - the folder is known now


class Worker:
    """Processes that run the program, each a fresh one; their hashes of texts are those of ``seed``."""

    def __init__(self, seed):
        self.process = subprocess.Popen(
            [sys.executable, HERE / "warm_start/worker.py"],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __call__(self, folder, store, before="", around="contextlib.nullcontext()"):
        before = f"torch.set_grad_enabled(False)\n{before}"
        self.process.stdin.write(json.dumps([str(folder), str(store), before, around]) + "\n")
        self.process.stdin.flush()
        told = json.loads(self.process.stdout.readline())
        assert "crash" not in told, told["crash"]
        return told

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


@pytest.fixture(scope="module")
def worker():
    made = Worker(seed=2)
    yield made
    made.end()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The program, and a cache that knows it, written by a process whose sets are in another order."""
    path = tmp_path_factory.mktemp("written")
    shutil.copytree(STORED, path / "program")
    first_process = Worker(seed=1)
    first = first_process(path / "program", path / "cache")
    first_process.end()
    assert first["same"]
    assert [outcome for outcome, _ in first["outcomes"]] == ["stored"], first
    return path


@pytest.fixture
def folder(written):
    yield written / "program"
    for file in ("program.py", "helper.py"):
        shutil.copy2(STORED / file, written / "program" / file)


@pytest.fixture
def cache(written):
    """The frames as they were; kernels of other tests stay, as they do in anybody's cache."""
    frames = {path: path.read_bytes() for path in (written / "cache/kernels").glob("*.frame")}
    yield written / "cache"
    for path in (written / "cache/kernels").glob("*.frame"):
        path.unlink()
    for path, data in frames.items():
        path.write_bytes(data)


def test_another_process_takes_it_up(worker, folder, cache):
    second = worker(folder, cache)
    assert second == {"same": True, "compiled": 0, "outcomes": [["taken up", ""]], "again": [], "refused": []}


def changed(file, old, new, folder):
    text = (folder / file).read_text()
    assert old in text
    other = "class Other(Base):\n    def act(self, x):\n        return x.exp()\n\n\nclass Net("
    (folder / file).write_text(text.replace(old, new).replace("class Net(", other))
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)


@pytest.mark.parametrize(("file", "old", "new"), TEXTS)
def test_source_that_changed_is_seen(worker, folder, cache, file, old, new):
    changed(file, old, new, folder)
    assert worker(folder, cache)["same"]


@pytest.mark.parametrize("before", CHANGES)
def test_what_changed_before_the_first_call_is_seen(worker, folder, cache, before):
    assert worker(folder, cache, before)["same"]


@pytest.mark.parametrize("around", AROUND)
def test_what_is_in_force_is_seen(worker, folder, cache, around):
    assert worker(folder, cache, IMPORTS, around)["same"]


@pytest.mark.parametrize("before", KEPT)
def test_what_no_guard_tells_of_may_change(worker, folder, cache, before):
    told = worker(folder, cache, before)
    assert (told["same"], told["compiled"]) == (True, 0), told


def test_there_are_more_than_two_hundred_changes():
    assert len(TEXTS) + len(CHANGES) + len(AROUND) >= 200
