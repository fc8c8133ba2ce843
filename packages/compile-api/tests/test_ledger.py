"""Facts are kept as data and only rendered by reports."""

import io
import threading

import pytest
import torch

import compile_api
from compile_api.ledger import GraphCaptured, GraphCompiled, GraphRefused, Kernel, Ledger
from compile_api.progress import Progress
from compile_api.report import Report


def example():
    kernel = Kernel("sin_add", "/tmp/sin_add.cpp", ("sin", "add"))
    return Report(
        (GraphCaptured("inductor", ("sin", "add"), 0.25),),
        (GraphCompiled("inference", 4, (kernel,), ("mm",), ("sort",), (("build", 0.1),)),),
        (GraphRefused("aotgrad", "resize_ of an input", "this graph runs eagerly"),),
    )


def test_a_report_counts():
    report = example()
    assert report.fused_operators == 2
    assert report.seconds == 0.25
    assert [kernel.name for kernel in report.kernels] == ["sin_add"]


def test_a_report_prints_every_fact():
    text = str(example())
    for fact in ("1 (2 operators)", "from 2 operators", "1 (sort)", "0.25 s", "build 0.10", "resize_ of an input"):
        assert fact in text


def test_a_ledger_takes_records_from_many_threads():
    ledger = Ledger()
    record = GraphCaptured("eager", (), 0.0)
    threads = [threading.Thread(target=lambda: [ledger.add(record) for _ in range(500)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.captured()) == 4000


def test_only_compiled_things_have_reports():
    with pytest.raises(compile_api.CompileApiError, match="was not made by"):
        compile_api.report(len)


def test_progress_is_quiet_until_it_takes_long_and_leaves_no_trace():
    stream = io.StringIO()
    Progress(stream, after=60.0).stage("building")
    assert stream.getvalue() == ""
    shown = Progress(stream, after=0.0)
    shown.stage("building")
    shown.done()
    assert "compiling: building" in stream.getvalue()
    assert stream.getvalue().endswith("\r\033[K")


def test_progress_without_a_stream_does_nothing():
    quiet = Progress(None, after=0.0)
    quiet.stage("building")
    quiet.done()
    assert not quiet._shown


def test_a_stage_that_lasts_is_shown_by_the_clock():
    stream, shown = io.StringIO(), threading.Event()
    stream.flush = shown.set
    progress = Progress(stream, after=0.0)
    progress.restart()
    progress._text = "building"  # as a stage that began before it was late would have left it
    assert shown.wait(10)
    progress.done()
    assert "compiling: building" in stream.getvalue()
    assert stream.getvalue().endswith("\r\033[K")


def test_progress_says_how_many_files_of_kernels_are_built(monkeypatch, tmp_path):
    monkeypatch.setenv("COMPILE_API_CACHE", str(tmp_path))
    stream = io.StringIO()
    monkeypatch.setattr(Progress, "for_terminal", staticmethod(lambda: Progress(stream, after=0.0)))
    compile_api.compile(lambda x: x.sin().softmax(-1))(torch.randn(8, 8))
    of_kernels_and_runner = "building 1 kernels, 2 of 2 files"
    for part in ("tracing forward and backward", "operators: lower", "operators: build", of_kernels_and_runner):
        assert part in stream.getvalue()
