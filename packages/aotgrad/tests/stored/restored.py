"""A plugin of pytest: every call that tests compile goes through JSON text, and what is restored of it is tested.

    PYTHONPATH=packages/aotgrad/tests/stored pytest -p restored packages/aotgrad/tests

At the end it says how many calls were restored, and why others were not.
"""

import json
from collections import Counter
from dataclasses import replace

import aotgrad
from aotgrad import pipeline

OUTCOMES = Counter()
compile_signature = pipeline.compile_signature


def restored(program, signature, options):
    call = compile_signature(program, signature, replace(options, describable=True))
    inner = []
    data = aotgrad.describe(call, lambda compiled: inner.append(compiled) or "it")
    if isinstance(data, aotgrad.Refusal):
        OUTCOMES[data.reason] += 1
        return call
    OUTCOMES["restored"] += 1
    backward = options.backward or options.forward
    again = aotgrad.restore(json.loads(json.dumps(data)), take_up=lambda _: inner[0], backward=backward)
    assert again is not None
    if not options.describable:
        del again.made_of
    return again


def pytest_configure():
    pipeline.compile_signature = restored


def pytest_terminal_summary(terminalreporter):
    for outcome, count in OUTCOMES.most_common():
        terminalreporter.write_line(f"{count:6} {outcome}")
