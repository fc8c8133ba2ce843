"""Runs one of CPython's test modules, plainly or with its functions captured, and writes what became of each test.

    python run_module.py (plain|captured|pieces|replaced) MODULE OUTCOMES [TEST...]

``captured`` is what users have.  ``pieces`` takes files without tensors apart, too, as it does those with them, and
``replaced`` runs what was evaluated even in the place of frames that compute none: so the mistakes of the evaluator are
found.  With TESTs only these run, and tracebacks are shown.

Capture leaves the standard library alone.  So the ``test`` package is imported through a link from elsewhere, which
makes its functions like any user's.
"""

import collections
import contextlib
import faulthandler
import gc
import importlib.util
import json
import os
import sys
import tempfile
import time
import traceback
import unittest
import warnings

import torch

import capture
from capture import _engine
from capture.entry.api import eager
from capture.entry.hook import Config


class Outcomes(unittest.TestResult):
    """What became of each test: "passed", "skipped: why", or the type of what was raised.

    ``started`` is called with the name of each.
    """

    def __init__(self, *, tell, started=lambda name: None):
        super().__init__()
        self.tell = tell
        self.started = started
        self.outcomes = {}

    def note(self, test, outcome):
        self.outcomes.setdefault(type(test).id(test).partition(" (")[0], []).append(outcome)

    def note_error(self, test, kind, error):
        self.note(test, f"{kind}: {error[0].__name__}")
        if self.tell:
            traceback.print_exception(*error, file=sys.__stderr__)

    def startTest(self, test):
        super().startTest(test)
        self.started(type(test).id(test))
        if self.tell:
            print(type(test).id(test), file=sys.__stderr__, flush=True)

    def addSuccess(self, test):
        self.note(test, "passed")

    def addFailure(self, test, err):
        self.note_error(test, "failed", err)

    def addError(self, test, err):
        self.note_error(test, "error", err)

    def addSkip(self, test, reason):
        self.note(test, f"skipped: {reason}")

    def addExpectedFailure(self, test, err):
        self.note(test, f"failed as expected: {err[0].__name__}")

    def addUnexpectedSuccess(self, test):
        self.note(test, "passed unexpectedly")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.note_error(test, "in a subtest", err)


for _name, _method in [pair for pair in vars(Outcomes).items() if callable(pair[1])]:
    setattr(Outcomes, _name, _engine.Outside(_method))  # not part of the tests


def run(names, outcomes):
    try:
        tests = unittest.defaultTestLoader.loadTestsFromNames(names)
    except unittest.SkipTest as skipped:
        outcomes.outcomes[names[0]] = [f"skipped: {skipped}"]
    else:
        tests.run(outcomes)


def link_tests(folder):
    """Makes ``test`` importable from ``folder`` instead of the standard library, here and in child processes."""
    found = importlib.util.find_spec("test").submodule_search_locations[0]
    os.symlink(found, os.path.join(folder, "test"))
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
    sys.modules.pop("test", None)


OPTIONS = {
    "captured": capture.Options(),
    "pieces": capture.Options(idle_instructions=None),
    "replaced": capture.Options(leave_idle=False, idle_instructions=None),
}


def runner(mode, log):
    if mode == "plain":
        return run
    return _engine.Region(run, Config(eager, OPTIONS[mode], log))


def warm_up():
    """Imports what the first capture of a process does."""
    _engine.Region(lambda tensor: tensor + tensor.shape[0], Config(eager, capture.Options(), capture.Log()))(
        torch.ones(3)
    )


def summary(log):
    """How much was captured, and the tracebacks of our own mistakes."""
    reasons = collections.Counter(record.reason.kind for record in log.records() if hasattr(record, "reason"))
    mistakes = [record.traceback for record in log.records() if getattr(record, "traceback", "")]
    return {"counters": _engine.counters(), "reasons": reasons, "mistakes": mistakes}


def without_discovery(module):
    """The module, imported; of a package only what its own file defines, because its modules are run one by one."""
    with contextlib.suppress(unittest.SkipTest):
        imported = importlib.import_module(module)
        if hasattr(imported, "__path__") and hasattr(imported, "load_tests"):
            del imported.load_tests
    return module


def run_tests(mode, module, outcomes, tests=()):
    """Runs a module's tests in this process; what there is to say besides their outcomes."""
    log = capture.Log()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        link_tests(folder)
        from test import support

        support.use_resources = []  # no network, no minutes of processor time
        gc.freeze()  # some tests collect garbage thousands of times: what torch's import made is none
        warnings.simplefilter("ignore", capture.CaptureWarning)
        started = time.process_time()
        runner(mode, log)([f"{module}.{test}" for test in tests] or [without_discovery(module)], outcomes)
        return {**summary(log), "seconds": time.process_time() - started}


def main(mode, module, path, *tests):
    faulthandler.enable()
    outcomes = Outcomes(tell=bool(tests))
    told = run_tests(mode, module, outcomes, tests)
    with open(path, "w") as file:
        json.dump({"outcomes": outcomes.outcomes, **told}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
