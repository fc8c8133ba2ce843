"""A plugin that runs what ``check`` runs twice: the second time in a fresh configuration, from what the first stored.

    PYTHONPATH=packages/capture/tests/stored pytest -p sweep packages/capture/tests/test_0[1-6]*.py

``WITHOUT_STORE=1`` runs both times without a store: what fails then minds to be run twice.  At the end it says how many
versions were stored, taken up and refused, and why.
"""

import collections
import copy
import os

import worker

import capture
from capture import _engine, state
from capture.entry.hook import Config

COUNTS = collections.Counter()


class Memory:
    settings = ""

    def __init__(self):
        self.kept = {}

    def find(self, key):
        return self.kept.get(key, [])[::-1]

    def keep(self, key, data):
        self.kept.setdefault(key, []).append(data)


def evaluated(function, log):
    options = capture.Options(strict=True, leave_idle=False)
    store = None if os.environ.get("WITHOUT_STORE") else Memory()

    def run(*args, **kwargs):
        again = capture.Log()
        own = capture.Log()
        own.subscribe(lambda record: None if isinstance(record, capture.StoreRecord) else log.add(record))
        first = Config(worker.Texts(), options, own, store)
        given = copy.deepcopy((args, kwargs))
        worker.outcome(lambda: _engine.Region(function, first)(*given[0], **given[1]))
        first.forget()
        second = Config(worker.Texts(), options, again, store)
        try:
            return _engine.Region(function, second)(*args, **kwargs)
        finally:
            second.forget()
            for record in (*own.records(), *again.records()):
                if isinstance(record, capture.StoreRecord):
                    COUNTS[record.outcome, record.explanation.partition(" (assumed")[0][:100]] += 1

    return run


def pytest_collection_finish(session):
    for plugin in session.config.pluginmanager.get_plugins():
        if str(getattr(plugin, "__file__", "")).endswith("capture/tests/conftest.py"):
            plugin.evaluated = evaluated


def pytest_runtest_setup(item):
    """What the last test said of functions for good."""
    for said in (state.PROCESS.allowed, state.PROCESS.disallowed, state.PROCESS.assumed):
        said.clear()


def pytest_terminal_summary(terminalreporter):
    for (outcome, why), count in COUNTS.most_common(60):
        terminalreporter.write_line(f"{count:6} {outcome}: {why}")
