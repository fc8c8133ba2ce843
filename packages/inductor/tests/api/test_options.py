"""Options: read once, unknown names refused; trace folders."""

import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import inductor
from inductor.options import Options


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="unknown option speed; known are"):
        Options.read({"speed": 11})


def test_an_options_object_passes_through():
    options = Options(check_inputs=False, verify=True)  # which all tests do
    assert Options.read(options) is options


def test_the_cache_moves_with_option_and_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("COMPILE_API_CACHE", str(tmp_path / "variable"))
    assert Options().cache_folder() == tmp_path / "variable"
    assert Options(cache_dir=str(tmp_path / "option")).cache_folder() == tmp_path / "option"
    monkeypatch.delenv("COMPILE_API_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Options().cache_folder() == tmp_path / "compile-api"


def test_inputs_go_unchecked_if_so_wished():
    x = torch.randn(10)
    compiled = inductor.compile(make_fx(torch.neg)(x), [x], options={"check_inputs": False})
    assert "check_input" not in compiled.source


def traced(path):
    def function(x, y):
        return (x @ y + x.t()[:, :4].sum()).softmax(-1), x.to(torch.int64).cumsum(0)

    x, y = torch.randn(6, 5), torch.randn(5, 4)
    return inductor.compile(make_fx(function)(x, y), [x, y], options={"trace": str(path)})


def test_a_trace_shows_every_stage(tmp_path):
    traced(tmp_path)
    (folder,) = tmp_path.iterdir()
    names = {path.name for path in folder.iterdir()}
    assert {
        "0_fx_graph.py",
        "1_graph.txt",
        "2_program.txt",
        "3_layouts.txt",
        "kernels_0.cpp",
        "wrapper.py",
        "run.py",
        "report.txt",
    } <= names
    assert "softmax" in (folder / "kernels_0.cpp").read_text()


def test_a_trace_runs_on_its_own(tmp_path):
    traced(tmp_path)
    (run,) = tmp_path.glob("*/run.py")
    path = ":".join(sys.path)
    env = {"PYTHONPATH": path, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, str(run)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "(6, 4)" in done.stdout


def test_a_variable_switches_traces_on(tmp_path, monkeypatch):
    monkeypatch.setenv("INDUCTOR_TRACE", str(tmp_path / "here"))
    x = torch.randn(3)
    inductor.compile(make_fx(torch.neg)(x), [x])
    assert list((tmp_path / "here").glob("*/wrapper.py"))


def test_a_trace_that_cannot_be_written_keeps_nothing_from_being_compiled(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.warns(RuntimeWarning, match="the trace cannot be written to .*file/here.*: Not a directory") as caught:
        compiled = traced(tmp_path / "file" / "here")
    assert len(caught) == 1
    assert compiled.report.failure is None
    monkeypatch.setattr(Path, "write_bytes", mock.Mock(side_effect=OSError(28, "No space left on device", "page")))
    with pytest.warns(RuntimeWarning, match="cannot be written to page: No space left on device") as caught:
        assert traced(tmp_path / "full").report.failure is None
    assert len(caught) == 1


def test_labels_are_seen_by_the_profiler():
    x = torch.randn(64, 64)
    graph = make_fx(lambda x: x.sin() + 1)(x)
    compiled = inductor.compile(graph, [x], options={"labels": True})
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as looked:
        (result,) = compiled(x)
    torch.testing.assert_close(result, x.sin() + 1)
    assert compiled.kernels[0].name in {event.key for event in looked.key_averages()}
