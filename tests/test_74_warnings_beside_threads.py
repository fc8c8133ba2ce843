"""What a program says of warnings holds while threads compile, and afterwards; what is given once is given once."""

import subprocess
import sys
import threading
import warnings

import pytest
import sympy  # noqa: F401 - it adds a filter when it is imported
import torch

import compile_api

BACKENDS = ["eager", "aot_eager", "inductor"]


def compiled_anew(number, backend):
    """First calls of a function, with and without sizes that vary, forward and backward."""
    f = compile_api.compile(lambda x: (torch.tanh(x * number) - number).relu(), backend=backend)
    for size in (2, 3, 4):
        f(torch.ones(size, requires_grad=True)).sum().backward()


@pytest.mark.parametrize("backend", BACKENDS)
def test_threads_that_compile_leave_warnings_as_they_were(backend):
    compiled_anew(0, backend)
    before = list(warnings.filters), warnings._showwarnmsg_impl, torch.is_warn_always_enabled()
    threads = [threading.Thread(target=compiled_anew, args=(number, backend)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (list(warnings.filters), warnings._showwarnmsg_impl, torch.is_warn_always_enabled()) == before


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_filter_that_is_set_beside_a_thread_stays(backend):
    done = threading.Event()

    def compile_on():
        number = 0
        while not done.is_set():
            number += 1
            compiled_anew(number, backend)

    with warnings.catch_warnings():
        thread = threading.Thread(target=compile_on)
        thread.start()
        for number in range(20):
            warnings.filterwarnings("ignore", message=f"noise {number}")
            done.wait(0.02)
        done.set()
        thread.join()
        patterns = {getattr(each[1], "pattern", "") for each in warnings.filters}
    assert patterns.issuperset(f"noise {number}" for number in range(20))


ONCE = """
import sys, warnings
import sympy, torch, compile_api

def check():
    warnings.warn("batch is small")

f = compile_api.compile(lambda x: torch.relu(x) + 1, backend=sys.argv[1])
for x in (torch.ones(2), torch.ones(3), torch.ones(4, dtype=torch.double), torch.ones(4, 2), torch.ones(4).long()):
    check()
    f(x)
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_python_gives_once_is_given_once(backend):
    ended = subprocess.run([sys.executable, "-c", ONCE, backend], capture_output=True, text=True, check=True)
    assert ended.stderr.count("UserWarning: batch is small") == 1
