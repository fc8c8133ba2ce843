"""A plugin of pytest: every call that tests compile goes through JSON text, and what is restored of it is tested.

    PYTHONPATH=packages/aotgrad/tests/stored pytest -p restored packages/aotgrad/tests

At the end it says how many calls were restored, and why others were not.
"""

import json
from collections import Counter
from dataclasses import replace

import aotgrad
from aotgrad import api, pipeline

OUTCOMES = Counter()
compile_signature, compile_graph = pipeline.compile_signature, api.compile_graph


def restored(program, signature, options):
    return _again(compile_signature(program, signature, replace(options, describable=True)), options)


def restored_stack(gm, example_inputs, options, *, layers):
    call = compile_graph(gm, example_inputs, replace(options, describable=True), layers=layers)
    return _again(call, options) if hasattr(call, "stacks") else call


def _again(call, options):
    inner = []
    data = aotgrad.describe(call, lambda compiled: inner.append(compiled) or len(inner))
    if isinstance(data, aotgrad.Refusal):
        OUTCOMES[data.reason] += 1
        return call
    OUTCOMES["restored"] += 1
    backward = options.backward or options.forward
    again = aotgrad.restore(json.loads(json.dumps(data)), take_up=lambda number: inner[number - 1], backward=backward)
    assert again is not None
    return again


def pytest_configure():
    pipeline.compile_signature = restored
    api.compile_graph = restored_stack


def pytest_terminal_summary(terminalreporter):
    for outcome, count in OUTCOMES.most_common():
        terminalreporter.write_line(f"{count:6} {outcome}")
