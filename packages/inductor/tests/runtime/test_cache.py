"""The cache on disk: whole entries or none, private, bounded, shared by processes."""

import os
import subprocess
import sys

import pytest

from inductor.cache import Cache, key_of
from inductor.errors import CacheError

needs_permissions = pytest.mark.skipif(os.getuid() == 0, reason="root may write to read-only folders")


def keep(cache, name, size=100):
    with cache.scratch() as scratch:
        source, library = (os.path.join(scratch, f"k{suffix}") for suffix in (".cpp", ".so"))
        for path in (source, library):
            with open(path, "wb") as file:
                file.write(b"x" * size)
        return cache.keep(key_of([name]), type(cache.folder)(source), type(cache.folder)(library))


def test_keys_tell_parts_apart():
    assert key_of(["ab", "c"]) != key_of(["a", "bc"])
    assert key_of(["ab", "c"]) == key_of(["ab", "c"])


def test_an_entry_is_found_again(tmp_path):
    cache = Cache(tmp_path / "cache", 1 << 20)
    assert cache.find(key_of(["k"])) is None
    kept = keep(cache, "k")
    assert Cache(tmp_path / "cache", 1 << 20).find(key_of(["k"])) == kept
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", [lambda data: data[:50], lambda data: b"", lambda data: b"y" + data[1:]])
def test_a_damaged_entry_is_no_entry(tmp_path, damage):
    cache = Cache(tmp_path, 1 << 20)
    path = keep(cache, "k")
    path.write_bytes(damage(path.read_bytes()))
    assert cache.find(key_of(["k"])) is None


def test_the_entry_unused_for_longest_goes_first(tmp_path):
    cache = Cache(tmp_path, 1000)
    for age, key in enumerate(("old", "used", "new")):
        keep(cache, key)
        for path in cache.folder.glob(f"{key_of([key])}.*"):
            os.utime(path, (age, age))
    cache.find(key_of(["old"]))  # now it is the newest
    cache.limit_bytes = 700
    keep(cache, "last")
    assert cache.find(key_of(["used"])) is None
    assert cache.find(key_of(["old"])) is not None
    assert cache.find(key_of(["last"])) is not None


def test_the_folder_is_looked_through_when_it_may_be_full_not_for_every_entry(tmp_path, monkeypatch):
    looks, look = [], Cache._evict
    monkeypatch.setattr(Cache, "_evict", lambda cache, keeping: looks.append(keeping) or look(cache, keeping))
    for number in range(100):  # 232 bytes each
        keep(Cache(tmp_path, 50 * 232), f"{number:03}")
        assert sum(path.stat().st_size for path in tmp_path.glob("kernels/*")) <= 50 * 232
    assert len(looks) < 12
    assert Cache(tmp_path, 50 * 232).find(key_of(["099"])) is not None


@pytest.mark.parametrize("tally", ["", "0 0", "nonsense", "99999999999 5"])
def test_without_a_tally_of_today_the_folder_is_looked_through(tmp_path, tally):
    for number in range(3):
        keep(Cache(tmp_path, 1000), str(number))
    (tmp_path / "tally.txt").write_text(tally)
    keep(Cache(tmp_path, 600), "last")
    assert {path.stem for path in tmp_path.glob("kernels/*.so")} == {key_of(["2"]), key_of(["last"])}


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(CacheError, match="belongs to another user"):
        Cache(tmp_path, 1 << 20)


def test_a_folder_that_others_may_write_to_is_closed(tmp_path):
    tmp_path.chmod(0o777)
    Cache(tmp_path, 1 << 20)
    assert tmp_path.stat().st_mode & 0o077 == 0


def test_a_folder_of_a_project_is_not_closed_and_loses_nothing(tmp_path):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "gemm.cpp").write_text("x" * 1000)
    keep(Cache(tmp_path, 500), "k")
    assert (tmp_path / "kernels" / "gemm.cpp").exists()
    tmp_path.chmod(0o775)
    (tmp_path / "train.py").write_text("")
    with pytest.raises(CacheError, match="close it with chmod go-w"):
        Cache(tmp_path, 1 << 20)
    assert tmp_path.stat().st_mode & 0o777 == 0o775


def test_no_folder_can_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError, match="cannot make the kernel cache"):
        Cache(tmp_path / "file" / "cache", 1 << 20)


@needs_permissions
def test_a_read_only_folder_still_answers(tmp_path):
    cache = Cache(tmp_path, 1 << 20)
    keep(cache, "k")
    cache.folder.chmod(0o500)
    assert cache.find(key_of(["k"])) is not None
    with pytest.raises(CacheError, match="cannot write"):
        cache.scratch()


_TWO = """
import sys, torch
from inductor.toolchain import build
from inductor.options import Options
source = 'extern "C" int answer() { return 42; }'
(library,) = build([source], Options(cache_dir=sys.argv[1]))
assert library.functions.answer() == 42
"""


def test_two_processes_at_once(tmp_path):
    command = [sys.executable, "-c", _TWO, str(tmp_path)]
    both = [subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert len(list((tmp_path / "kernels").glob("*.so"))) == 1
    assert not list((tmp_path / "kernels").glob("building-*"))
