"""Trouble with the compiler or the cache: one sentence that says it, right results, never half an entry."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import inductor
from inductor import cache, toolchain

X = torch.randn(50, 7)


def function(x):
    return (x * 2 + 1).softmax(-1), x.sum(0).tanh()


def compile_in(folder, **options):
    return inductor.compile(make_fx(function)(X), [X], options={"cache_dir": str(folder), **options})


def is_right(compiled):
    torch.testing.assert_close(compiled(X), function(X))
    return True


def has_only_whole_entries(folder):
    """Every library is followed by its digest and stands beside its source; nothing is left of building."""
    for path in folder.glob("kernels/*"):
        assert path.suffix in (".so", ".cpp", ".graph"), path
        if path.suffix != ".cpp":
            data = path.read_bytes()
            assert cache.is_whole(path.name, data)
    for path in folder.glob("kernels/*.so"):
        assert path.with_suffix(".cpp").exists()
    return True


def full(*args, **kwargs):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def script(folder, text):
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


COMPILERS = {
    "complains": (
        "echo 'kernels.cpp:3: error: no such register' >&2; exit 1",
        "failed on a kernel: .*no such register",
    ),
    "has no space left": (
        "echo '/usr/bin/ld: final link failed: No space left on device'; "
        "echo 'collect2: error: ld returned 1 exit status'; exit 1",
        "failed on a kernel: .*No space left on device",
    ),
    "says nothing": ("exit 3", "failed on a kernel: it ended with status 3 .* see whether .*--version. runs"),
    "dies": ("kill -9 $$", "failed on a kernel: Killed ended it; if memory was short, option build_processes=1"),
    "finds no space": ("echo 'fatal error: No space left on device' >&2; exit 1", "No space left on device"),
    "makes nothing": ("exit 0", "it made no library and said nothing; see whether .*--version. runs"),
}


@pytest.mark.parametrize("name", COMPILERS)
def test_a_compiler_that(name, tmp_path):
    text, sentence = COMPILERS[name]
    with pytest.warns(RuntimeWarning, match=sentence) as caught:
        compiled = compile_in(tmp_path / "cache", compiler=script(tmp_path, text))
    assert len(caught) == 1
    assert "\n" not in str(caught[0].message)
    assert is_right(compiled)
    assert has_only_whole_entries(tmp_path / "cache")


def test_a_library_that_cannot_be_loaded_is_no_entry_afterwards(tmp_path):
    broken = script(tmp_path, 'while [ "$1" != -o ]; do shift; done; echo nonsense > "$2"')
    with pytest.warns(RuntimeWarning, match="cannot load the built kernel"):
        assert is_right(compile_in(tmp_path / "cache", compiler=broken))
    assert is_right(compile_in(tmp_path / "cache", fallback=False))


@pytest.mark.parametrize("what", ["source", "entry", "scratch"])
def test_a_full_disk(what, tmp_path, monkeypatch):
    target, name = {
        "source": (Path, "write_text"),
        "entry": (cache.os, "replace"),
        "scratch": (cache.tempfile, "TemporaryDirectory"),
    }[what]
    with monkeypatch.context() as patch:
        patch.setattr(target, name, full)
        with pytest.warns(RuntimeWarning, match="runs operator by operator: cannot .*: No space left on device"):
            compiled = compile_in(tmp_path)
    assert is_right(compiled)
    assert has_only_whole_entries(tmp_path)
    assert is_right(compile_in(tmp_path, fallback=False))


def test_the_cache_of_another_user_is_not_touched(tmp_path, monkeypatch):
    tmp_path.chmod(0o755)
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.warns(RuntimeWarning, match="belongs to another user and is not used"):
        compiled = compile_in(tmp_path)
    assert is_right(compiled)
    assert not list(tmp_path.glob("kernels/*"))


def test_what_a_process_that_died_left_behind_is_removed(tmp_path):
    compile_in(tmp_path)
    old, new = (tmp_path / "kernels" / f"building-{name}" for name in ("old", "new"))
    for folder in (old, new):
        folder.mkdir()
    os.utime(old, (time.time() - 1e6,) * 2)
    (tmp_path / "tally.txt").write_text("1 1")  # the folder was last looked through long ago
    toolchain.build(['extern "C" int answer() { return 1; }'], inductor.Options(cache_dir=str(tmp_path)))
    assert (old.exists(), new.exists()) == (False, True)


_SMALL_FILES = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import pytest
from test_failures import compile_in, has_only_whole_entries, is_right
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
for size in (0, 700, 5000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    with pytest.warns(RuntimeWarning, match="runs operator by operator") as caught:
        compiled = compile_in(sys.argv[1])
    assert len(caught) == 1, [str(warning.message) for warning in caught]
    assert is_right(compiled)
    assert has_only_whole_entries(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
assert is_right(compile_in(sys.argv[1], fallback=False))
"""


def run_apart(code, folder, **options):
    """Code in a process of its own, which gets a folder and finds this module."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, str(folder), str(Path(__file__).parent)]
    return subprocess.Popen(command, env=env, **options)


def test_files_end_early_as_on_a_full_disk(tmp_path):
    """The system refuses what is beyond a file's limit: sources, the compiler's own files, or libraries."""
    assert run_apart(_SMALL_FILES, tmp_path).wait() == 0


_SLOW_COMPILER = """
import sys
sys.path.insert(0, sys.argv[2])
from test_failures import compile_in
compile_in(sys.argv[1], compiler=sys.argv[1] + "/compiler")
"""


def test_a_process_killed_while_it_compiles_leaves_no_entry(tmp_path):
    started = tmp_path / "started"
    script(tmp_path, f'while [ "$1" != -o ]; do shift; done; echo half > "$2"; touch {started}; exec sleep 5')
    process = run_apart(_SLOW_COMPILER, tmp_path)
    while not started.exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not list(tmp_path.glob("kernels/*.so"))
    assert is_right(compile_in(tmp_path, fallback=False))


_MANY = """
import sys, warnings, torch
warnings.simplefilter("error")
sys.path.insert(0, sys.argv[2])
from test_failures import compile_in, is_right
assert is_right(compile_in(sys.argv[1], fallback=False))
"""


def test_many_processes_start_at_once(tmp_path):
    processes = [run_apart(_MANY, tmp_path) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert has_only_whole_entries(tmp_path)
    compile_in(alone := tmp_path / "alone")
    assert sorted(path.name for path in tmp_path.glob("kernels/*")) == sorted(
        path.name for path in alone.glob("kernels/*")
    )


@pytest.mark.parametrize("named", ["env g++ -g0", '"g++"'])
def test_a_compiler_may_come_with_arguments(named, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", named)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COMPILE_API_CACHE", "~/cache")
    (library,) = toolchain.build(['extern "C" int answer() { return 42; }'], inductor.Options())
    assert library.functions.answer() == 42
    assert len(list(tmp_path.glob("cache/kernels/*.so"))) == 1


def test_a_compiler_that_links_no_cpp_is_named(tmp_path):
    raising = '#include <stdexcept>\nextern "C" int answer(int x) { if (x) throw std::runtime_error("no"); return x; }'
    with pytest.raises(inductor.BuildError, match=r"\$CXX names \(.*gcc\)"):
        toolchain.build([raising], inductor.Options(compiler="gcc", cache_dir=str(tmp_path)))
