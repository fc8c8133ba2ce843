"""What every test run of this repository needs before torch is imported, and a line of progress now and then."""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import random
import signal
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def _let_slow_machines_be_slow() -> None:
    """No case of a property fails for the time that it takes: the first of them imports, and others may want the
    processor."""
    if importlib.util.find_spec("hypothesis") is None:
        return
    from hypothesis import HealthCheck, settings

    settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")


os.environ.setdefault("INDUCTOR_VERIFY", "1")  # the code generator holds what each of its stages made against the rules
_set_what_the_processor_needs()
_listen_to_interrupts()
_let_slow_machines_be_slow()


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
        self.reasons: list[str] = []

    def watch(self) -> None:
        """Counts what the modules do that are imported now: they may be others than in the test before.

        A function that a test put in the place of ours is counted as well; what is counted already is left as it is.
        """
        hook, log = sys.modules.get("capture.entry.hook"), sys.modules.get("capture.log")
        if hook is not None and not hasattr(getattr(hook, "translate", None), "is_counted"):
            hook.translate = self._counting(hook.translate)
        if log is not None and not hasattr(log.Log.records, "is_counted"):
            log.Log.records = self._noticing(log.Log.records)

    def _counting(self, translate: Callable[..., Any]) -> Callable[..., Any]:
        """A frame counts of which there is a graph, or all of which runs as new code; an error of ours is told."""

        @functools.wraps(translate)
        def counted(*args: object, **kwargs: object) -> Any:
            self.evaluated += 1
            try:
                made = translate(*args, **kwargs)
            except BaseException as error:
                # By its name: the class is another one where the modules were imported anew.
                self.looked += any(kind.__name__ == "CaptureError" for kind in type(error).__mro__)
                raise
            if made.stopped is not None:
                self.reasons.append(f"{made.stopped.location}: {made.stopped.reason.explanation}")
            whole = made.stopped is None or made.stopped.reason.kind == "exception"
            self.captured += made.graph is not None or (made.code is not None and whole)
            return made

        counted.is_counted = True  # type: ignore[attr-defined]
        return counted

    def _noticing(self, records: Callable[..., Any]) -> Callable[..., Any]:
        """Whoever asks for records looks; capture itself does it as well, where no user asks for it."""

        @functools.wraps(records)
        def read(log: object) -> Any:
            caller = str(sys._getframe(1).f_globals.get("__name__"))
            self.looked += caller == "capture.entry.api" or not caller.startswith("capture.")
            return records(log)

        read.is_counted = True  # type: ignore[attr-defined]
        return read

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> object:
        self.watch()
        self.evaluated = self.captured = self.looked = 0
        self.reasons.clear()
        result = yield
        mark = item.get_closest_marker("without_graphs")
        cases = None if mark is None else mark.kwargs.get("cases")
        meant = mark is not None and (cases is None or cases == "some" or item.callspec.id in cases)
        if self.evaluated and not self.captured and not self.looked and not meant:
            why = "; ".join(self.reasons)
            pytest.fail(f"frames were evaluated and nothing was captured: look at the records, or say why ({why})")
        if self.captured and meant and cases != "some":
            pytest.fail("it is said to be without graphs, and there is one")
        return result


def pytest_addoption(parser: pytest.Parser) -> None:
    said = "what capture does by default with calls of modules that are equal but for the module"
    parser.addoption("--equal-calls", choices=("off", "on", "verify"), help=said)
    said = "of a test with more cases than this run so many, others in every run; those of torch's insides all; or DRAW"
    parser.addoption("--draw", type=int, metavar="CASES", default=os.environ.get("DRAW"), help=said)


def _draw_seed() -> str:
    """Another one for each run, and the same one in all of its processes, which have to agree on what there is."""
    return os.environ.get("DRAW_SEED") or os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(time.time_ns())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Draws of each sweep a few cases, where all of them run elsewhere: ``--draw``."""
    most = config.getoption("draw")
    if most is None:
        return
    sweeps: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not item.path.name.endswith(("_insides.py", "_versions.py")):  # each case is about this release of torch
            sweeps.setdefault(item.nodeid.partition("[")[0], []).append(item)
    draw, left = random.Random(_draw_seed()), set[pytest.Item]()
    for cases in sweeps.values():
        left.update(draw.sample(cases, max(0, len(cases) - most)))
    config.hook.pytest_deselected(items=list(left))
    items[:] = [item for item in items if item not in left]


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
    config.pluginmanager.register(Captured(), "captured")
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not reporter.isatty and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(reporter), "progress")
