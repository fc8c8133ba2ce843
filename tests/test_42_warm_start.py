"""What one process compiled is taken up by the next one, as long as nothing has changed that matters."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "warm_start"))

from processes import AROUND, CHANGES, IMPORTS, KEPT, STORED, TEXTS, Worker, as_it_was, changed


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
    as_it_was(written / "program")


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
