"""Finding, running and doing without the compiler."""

import ctypes
import errno
import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import inductor
from inductor import cache, toolchain
from inductor.errors import BuildError
from inductor.options import Options
from inductor.state import STATE

ANSWER = 'extern "C" int answer() { return 42; }'


def test_a_library_is_built_once(tmp_path, monkeypatch):
    options = Options(cache_dir=str(tmp_path))
    (first,) = toolchain.build([ANSWER], options)
    monkeypatch.setattr(toolchain.subprocess, "Popen", lambda *_, **__: pytest.fail("the compiler ran"))
    (second,) = toolchain.build([ANSWER], options)
    assert (first.from_cache, second.from_cache) == (False, True)
    assert second.functions.answer() == 42
    assert ANSWER in second.source.read_text()


def test_a_damaged_library_is_built_again(tmp_path):
    options = Options(cache_dir=str(tmp_path))
    toolchain.build([ANSWER], options)
    (path,) = tmp_path.glob("kernels/*.so")
    data = path.read_bytes()
    path.unlink()  # the loaded one keeps its own copy
    path.write_bytes(data[:1000])
    assert toolchain.build([ANSWER], options)[0].from_cache is False


def test_flags_and_headers_are_part_of_the_key(tmp_path):
    toolchain.build([ANSWER], Options(cache_dir=str(tmp_path)))
    (library,) = toolchain.build([ANSWER], Options(cache_dir=str(tmp_path), cpp_flags=("-O1",)))
    assert not library.from_cache


def test_many_sources_are_built_at_once(tmp_path):
    sources = [f'extern "C" int answer() {{ return {number}; }}' for number in range(5)]
    libraries = toolchain.build(sources, Options(cache_dir=str(tmp_path), build_processes=2))
    assert [library.functions.answer() for library in libraries] == list(range(5))


@pytest.mark.parametrize("depth", [0, 3])
def test_an_error_shows_the_compilers_first_complaint(tmp_path, depth):
    folder = tmp_path.joinpath(*["a folder whose name is as long as all that a compiler may say of a kernel"] * depth)
    with pytest.raises(BuildError, match=r"failed on a kernel: .*error: .*nonsense") as caught:
        toolchain.build(["nonsense;", ANSWER], Options(cache_dir=str(folder)))
    assert "nonsense" in caught.value.complaint
    assert not list(folder.glob("kernels/building-*"))


def test_without_a_compiler_the_graph_runs_operator_by_operator(tmp_path):
    x = torch.randn(5)
    options = {"compiler": "no-such-compiler", "cache_dir": str(tmp_path)}
    with pytest.warns(RuntimeWarning, match="no C\\+\\+ compiler found .looked for no-such-compiler"):
        compiled = inductor.compile(make_fx(torch.sin)(x), [x], options=options)
    assert torch.equal(compiled(x)[0], x.sin())
    assert "no C++ compiler" in compiled.report.failure
    with pytest.raises(BuildError):
        inductor.compile(make_fx(torch.sin)(x), [x], options={**options, "fallback": False})


def test_without_a_cache_kernels_are_built_for_this_process(tmp_path):
    (tmp_path / "file").write_text("")
    x = torch.randn(5)
    with pytest.warns(RuntimeWarning, match="kernels are built for this process only"):
        compiled = inductor.compile(make_fx(torch.neg)(x), [x], options={"cache_dir": str(tmp_path / "file" / "sub")})
    assert torch.equal(compiled(x)[0], -x)
    assert compiled.report.failure is None


# -- a cache folder that cannot be written to --------------------------------------------------------------------------


def failing(real, number, when):
    """A function of the system that fails where it is to do something in the cache folder."""

    def call(*args, **kwargs):
        if when(*args, **kwargs):
            raise OSError(number, os.strerror(number))
        return real(*args, **kwargs)

    return call


def in_folder(*args, **kwargs):
    return "/folder/" in " ".join(map(str, args))


def appended(path, mode="r", **kwargs):
    return in_folder(path) and mode == "ab"


def named(source, target):
    return in_folder(target)


def named_library(source, target):
    return in_folder(target) and str(target).endswith(".so")


FAULTS = {
    "no room for a folder": (tempfile, "mkdtemp", errno.ENOSPC, in_folder),
    "a folder that is read-only": (tempfile, "mkdtemp", errno.EROFS, in_folder),
    "a folder that is gone": (tempfile, "mkdtemp", errno.ENOENT, in_folder),
    "no room for a source": (Path, "write_text", errno.ENOSPC, in_folder),
    "the quota, at the end": (Path, "open", errno.EDQUOT, appended),
    "no room for a name": (os, "replace", errno.ENOSPC, named),
    "no room for the second name": (os, "replace", errno.ENOSPC, named_library),
    "entries that cannot be read": (Path, "read_bytes", errno.EIO, in_folder),
    "nothing may be run from it": (ctypes, "CDLL", errno.EPERM, in_folder),
}


@pytest.fixture
def untold(monkeypatch):
    monkeypatch.setattr(STATE, "unusable_folders", set())


@pytest.mark.parametrize("fault", FAULTS)
def test_where_the_cache_cannot_be_used_kernels_are_built_for_this_process(fault, tmp_path, monkeypatch, untold):
    owner, name, number, when = FAULTS[fault]
    options = Options(cache_dir=str(tmp_path / "folder"))
    monkeypatch.setattr(owner, name, failing(getattr(owner, name), number, when))
    sources = [f'extern "C" int answer() {{ return {answer}; }} // {fault}' for answer in (42, 43)]
    with pytest.warns(RuntimeWarning, match="folder.*kernels are built for this process only") as told:
        answers = [toolchain.build([source], options)[0].functions.answer() for source in sources]
    assert (answers, len(told)) == ([42, 43], 1)


def test_a_folder_that_is_gone_at_the_next_call_is_made_again(tmp_path, untold):
    options = Options(cache_dir=str(tmp_path / "folder"))
    for _ in range(2):
        (library,) = toolchain.build([ANSWER], options)
        assert (library.functions.answer(), library.from_cache) == (42, False)
        shutil.rmtree(tmp_path / "folder")


def test_a_full_disk_ends_the_compiler_and_entries_that_are_there_are_used(tmp_path, monkeypatch, untold):
    options = Options(cache_dir=str(tmp_path / "folder"))
    toolchain.build([ANSWER], options)
    compiler = tmp_path / "compiler"
    full = 'case "$*" in */folder/*) echo "No space left on device" >&2; exit 1;; esac'
    compiler.write_text(f'#!/bin/sh\n{full}\nexec g++ "$@"\n')
    compiler.chmod(0o700)
    options = Options(cache_dir=str(tmp_path / "folder"), compiler=str(compiler))
    monkeypatch.setattr(toolchain.Cache, "has_room", lambda cache: not in_folder(cache.folder))
    with pytest.warns(RuntimeWarning, match="there is no room in the kernel cache") as told:
        answers = [toolchain.build([ANSWER + " // room"], options)[0].functions.answer() for _ in range(2)]
    assert (answers, len(told)) == ([42, 42], 1)


def test_texts_and_data_go_to_the_spare_cache(tmp_path, monkeypatch, untold):
    monkeypatch.setattr(os, "replace", failing(os.replace, errno.ENOSPC, named))
    store = toolchain.open_cache(Options(cache_dir=str(tmp_path / "folder")))
    with pytest.warns(RuntimeWarning, match="folder.*No space left") as told:
        text, _ = store.keep_text("0.py", "text"), store.keep_data("0.cubin", b"data")
    assert (text.read_text(), store.find_data("0.cubin"), len(told)) == ("text", b"data", 1)


def test_a_folder_with_room_is_said_to_have_some(tmp_path):
    assert toolchain.Cache(tmp_path, 1 << 20).has_room()


def test_all_kinds_of_files_that_are_kept_are_known_to_the_cache(tmp_path):
    """What it does not know it neither counts, nor lets go, nor clears."""
    texts = [path.read_text() for path in Path(inductor.__file__).parent.glob("*.py")]
    kinds = {kind for text in texts for kind in re.findall(r"key\w*(?:\([^\n]*\))?\}\.(\w+)\"", text)}
    assert kinds >= {"so", "cpp", "py", "cubin", "shape", "tiling"}
    folder = tmp_path / "kernels"
    folder.mkdir()
    for kind in kinds:
        (folder / f"{'0' * 40}.{kind}").touch()
    assert {path.suffix[1:] for path in cache.cached_files(tmp_path)} == kinds
