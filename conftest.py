"""What every test run of this repository needs before torch is imported, and a line of progress now and then."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import sys
import time
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parent


def _set_what_the_processor_needs() -> None:
    """Products of bfloat16 kill the process on machines whose processor lists AMX and forbids it."""
    path = ROOT / "packages/compile-api/src/compile_api/processor.py"
    if not path.exists():  # tests that were copied out of the tree: whoever runs them has set it
        return
    spec = importlib.util.spec_from_file_location("processor", path)
    assert spec is not None
    assert spec.loader is not None
    processor = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(processor)
    os.environ.update(processor.needed_settings())


def _listen_to_interrupts() -> None:
    """Whoever starts the tests in the background of a shell leaves them deaf to Ctrl-C, which some of them raise."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


os.environ.setdefault("INDUCTOR_VERIFY", "1")  # the code generator holds what each of its stages made against the rules
_set_what_the_processor_needs()
_listen_to_interrupts()


@pytest.fixture(scope="session")
def triton_interpreter() -> None:
    """For tests that run Triton's interpreter, in a process of its own."""
    triton = pytest.importorskip("triton", reason="the kernels are Triton's")
    numpy = pytest.importorskip("numpy", reason="the interpreter computes with it").__version__
    if _release(triton.__version__) < (3, 7) and _release(numpy) >= (2, 4):
        pytest.skip(f"the interpreter of triton {triton.__version__} does not run with numpy {numpy}: 2.3 is the last")


def _release(version: str) -> tuple[int, int]:
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def _seed_absent_devices_quickly() -> None:
    """For a device that is not there torch keeps who gave the seed, as text with every caller's line, at each seed."""
    for name in ("torch.cuda", "torch.xpu", "torch.mtia"):
        device = sys.modules.get(name)
        if device is not None and not device.is_available():
            device.__dict__["traceback"] = types.SimpleNamespace(format_stack=list)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Torch and the collected tests stay to the end: no collection of garbage need look at their million objects."""
    _seed_absent_devices_quickly()
    gc.collect()
    gc.freeze()


class Progress:
    """Prints how far the tests are, every half minute, where nobody watches a terminal."""

    def __init__(self, reporter: pytest.TerminalReporter, *, seconds: float = 30.0) -> None:
        self.reporter = reporter
        self.seconds = seconds
        self.started = self.last = time.monotonic()
        self.done = self.failed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed += report.failed
        if report.failed:  # its story comes at the end, which a run that is cut short does not reach
            self.reporter.write_line(f"failed: {report.nodeid}")
        self.done += report.when == "teardown"
        now = time.monotonic()
        if now - self.last >= self.seconds:
            self.last = now
            minutes, seconds = divmod(int(now - self.started), 60)
            self.reporter.write_line(f"{minutes}:{seconds:02d}  {self.done} tests done, {self.failed} failed")


class Captured:
    """Whether capture did anything in a test that has it evaluate frames: otherwise CPython is compared with CPython.

    Such a test looks at what was recorded, or says why nothing is captured: ``without_graphs``, and for which of its
    ``cases``, "some" where that is drawn.  What says so has to be so.
    """

    def __init__(self) -> None:
        self.evaluated = self.captured = self.looked = 0

    def watch(self) -> None:
        """A frame counts of which there is a graph, or all of which runs as new code; an error of ours is told."""
        hook, watched = sys.modules.get("capture.entry.hook"), sys.modules.get("capture.log")
        if hook is None or watched is None or hasattr(hook, "watched"):
            return
        translate, records, error = hook.translate, watched.Log.records, sys.modules["capture.errors"].CaptureError

        def counted(*args: object, **kwargs: object) -> object:
            self.evaluated += 1
            try:
                made = translate(*args, **kwargs)
            except error:
                self.looked += 1
                raise
            whole = made.stopped is None or made.stopped.reason.kind == "exception"
            self.captured += made.graph is not None or (made.code is not None and whole)
            return made

        def read(log: object) -> object:
            self.looked += sys._getframe(1).f_globals.get("__name__") != hook.translate_module
            return records(log)

        hook.watched, hook.translate_module = True, translate.__module__
        hook.translate, watched.Log.records = counted, read

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> object:
        self.watch()
        self.evaluated = self.captured = self.looked = 0
        result = yield
        self.watch()
        mark = item.get_closest_marker("without_graphs")
        cases = None if mark is None else mark.kwargs.get("cases")
        meant = mark is not None and (cases is None or cases == "some" or item.callspec.id in cases)
        if self.evaluated and not self.captured and not self.looked and not meant:
            pytest.fail("frames were evaluated and nothing was captured: look at the records, or say why there is none")
        if self.captured and meant and cases != "some":
            pytest.fail("it is said to be without graphs, and there is one")
        return result


def pytest_addoption(parser: pytest.Parser) -> None:
    said = "what capture does by default with calls of modules that are equal but for the module"
    parser.addoption("--equal-calls", choices=("off", "on", "verify"), help=said)
    parser.addoption(
        "--captured", action="store_true", help="fail what evaluates frames, captures nothing and says nothing"
    )


def _take_equal_calls_for(choice: str) -> None:
    """Options that say nothing of equal calls mean this, in this process."""
    options = importlib.import_module("capture").Options
    defaults = dict(zip(options.__dataclass_fields__, options.__init__.__defaults__, strict=True))
    defaults.update(equal_calls=choice != "off", verify_equal_calls=choice == "verify")
    options.__init__.__defaults__ = tuple(defaults.values())


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if importlib.util.find_spec("capture") is not None:  # ours are errors where somebody names them
        config.addinivalue_line("filterwarnings", "error::capture.CaptureWarning")
        if (choice := config.getoption("equal_calls")) is not None:
            _take_equal_calls_for(choice)
    if config.getoption("captured"):
        config.pluginmanager.register(Captured(), "captured")
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not reporter.isatty and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(reporter), "progress")
