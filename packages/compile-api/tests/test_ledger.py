"""Facts are kept as data and only rendered by reports."""

import io
import threading

import pytest

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
