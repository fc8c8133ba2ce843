"""Finding, running and doing without the compiler."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import inductor
from inductor import toolchain
from inductor.errors import BuildError
from inductor.options import Options

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


def test_an_error_shows_the_compilers_first_complaint(tmp_path):
    with pytest.raises(BuildError, match=r"failed on a kernel: .*error: .*nonsense") as caught:
        toolchain.build(["nonsense;", ANSWER], Options(cache_dir=str(tmp_path)))
    assert "nonsense" in caught.value.complaint
    assert not list(tmp_path.glob("kernels/building-*"))


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
