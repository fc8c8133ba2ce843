"""Where something is missing the result is right by a slower way, and the reason is on record."""

import textwrap

import pytest
import torch

import compile_api


@pytest.fixture
def run(python):
    """Runs a program in a process of its own; returns what it printed."""

    def printed(program, **env):
        done = python("-c", textwrap.dedent(program), **env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return printed


PROGRAM = """
    import warnings; warnings.simplefilter("ignore")
    import torch, compile_api
    f = compile_api.compile(lambda x: torch.sin(x) + 1)
    x = torch.randn(100)
    torch.testing.assert_close(f(x), torch.sin(x) + 1)
    report = compile_api.report(f)
    print("kernels", len(report.kernels))
    print(report)
"""


def test_without_a_compiler_the_graph_still_runs(tmp_path, run):
    out = run(PROGRAM, CXX=str(tmp_path / "no-such-compiler"), COMPILE_API_CACHE=str(tmp_path / "cache"))
    assert "no-such-compiler" in out


def test_with_a_file_where_the_cache_should_be_the_graph_still_runs(tmp_path, run):
    (tmp_path / "cache").write_text("not a folder")
    assert "kernels" in run(PROGRAM, COMPILE_API_CACHE=str(tmp_path / "cache"))


def test_a_second_process_builds_nothing(tmp_path, run):
    cache = str(tmp_path / "cache")
    assert "kernels 1" in run(PROGRAM, COMPILE_API_CACHE=cache)
    # Without a compiler only the cache can supply the kernel.
    built = sorted(path.name for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert "kernels 1" in run(PROGRAM, COMPILE_API_CACHE=cache)
    assert built == sorted(path.name for path in (tmp_path / "cache").rglob("*") if path.is_file())


def test_an_unknown_operator_falls_back_and_is_named():
    with torch.library._scoped_library("house_test", "DEF") as library:
        library.define("triple(Tensor x) -> Tensor")
        library.impl("triple", lambda x: x * 3, "CompositeExplicitAutograd")
        torch.library.register_fake("house_test::triple", lambda x: torch.empty_like(x), lib=library)
        f = compile_api.compile(lambda x: torch.ops.house_test.triple(x) + 1)
        with torch.no_grad():
            assert torch.equal(f(torch.ones(3)), torch.full((3,), 4.0))
        assert any("house_test" in name for name in compile_api.report(f).compiled[0].fallbacks)
