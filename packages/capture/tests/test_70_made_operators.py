"""Operators that capture adds to torch's: defined when one is asked for, once, whoever asks."""

import subprocess
import sys
import threading

import torch

from capture.operators import definitions, dynamic_sizes

ASKS = "import capture, torch; print(len(capture.state.PROCESS.operators))"


def test_importing_capture_defines_none():
    assert subprocess.run([sys.executable, "-c", ASKS], capture_output=True, text=True, check=True).stdout == "0\n"


def test_threads_that_ask_at_once_get_one_operator():
    started, count = threading.Barrier(8), []

    def define():
        count.append(1)
        definitions.install("made_in_a_test::twice", "(Tensor x) -> Tensor", lambda x: x * 2, torch.empty_like)
        return "made_in_a_test::twice"

    def ask(found):
        started.wait()
        found.append(definitions.operator_for("a key", define))

    found = []
    threads = [threading.Thread(target=ask, args=(found,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), len(set(map(id, found))), len(count)) == (8, 1, 1)
    assert torch.equal(found[0](torch.ones(2)), torch.full((2,), 2.0))


def test_a_definition_may_ask_for_another_operator():
    assert dynamic_sizes.operator_of("avg_pool2d") is torch.ops.symint.avg_pool2d
