"""Programs that have warnings as errors: ours end none of them, torch's and their own are raised where eager raises."""

import os
import subprocess
import sys
import warnings

import pytest
import torch

import compile_api
from compile_api import wiring
from compile_api.backends import Context
from compile_api.ledger import Ledger
from compile_api.options import CompileOptions
from compile_api.progress import Progress

BACKENDS = ("eager", "aot_eager", "inductor")


def operator_by_operator(x, n):
    return torch.arange(float(n)).sum() * x


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_runs_operator_by_operator_is_no_error(backend):
    compiled = compile_api.compile(operator_by_operator, backend=backend)
    x = torch.ones(3)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("error")
        for n in range(2, 6):
            assert torch.equal(compiled(x, n), operator_by_operator(x, n))
    assert len(compile_api.report(compiled).captured) == 2


def broken_compiler(broken):
    def compiler(direction):
        def compile_graph(gm, example_inputs):
            if direction == broken:
                raise ZeroDivisionError("ours")
            return wiring.aotgrad.run_eagerly(gm, example_inputs)

        return compile_graph

    ctx = Context(CompileOptions(strict=False), Ledger(), Progress())
    return wiring.through_aotgrad(ctx, compiler, None)


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("broken", ["forward", "backward"])
def test_a_mistake_of_ours_is_shown_or_raised_once_and_nothing_is_lost(broken, named):
    compiled = compile_api.compile(lambda x: x.sin() * 2, backend=broken_compiler(broken))
    raised = []
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("error", compile_api.CaptureWarning if named else Warning)
        for _ in range(3):
            x = torch.ones(3, requires_grad=True)
            try:
                compiled(x).sum().backward()
                torch.testing.assert_close(x.grad, 2 * x.detach().cos())
            except compile_api.CaptureWarning as error:
                raised.append(error)
    assert (len(raised), len(shown)) == ((1, 0) if named else (0, 1))


def test_options_that_mean_nothing_here_are_no_error(recwarn):
    warnings.simplefilter("error")
    compiled = compile_api.compile(torch.sin, backend="eager", options={"labels": True})
    assert torch.equal(compiled(torch.ones(2)), torch.ones(2).sin())
    assert [each.category for each in recwarn] == [compile_api.CaptureWarning]


def own(x, done):
    done.append("before")
    warnings.warn("mine", stacklevel=1)
    done.append("after")
    return x + 1


def handled(x, done):
    try:
        warnings.warn("mine", DeprecationWarning, stacklevel=1)
    except DeprecationWarning:
        done.append("handled")
    return x + 1


def broadcast(x, done):
    done.append("before")
    return torch.nn.functional.mse_loss(x, x[:1])


def no_dimension(x, done):
    done.append("before")
    return torch.nn.functional.softmax(x)


def old_arguments(x, done):
    done.append("before")
    return torch.nn.functional.mse_loss(x, x, size_average=True)


def old_context(x, done):
    done.append("before")
    with torch.cuda.amp.autocast(enabled=False):
        return x + 1


RAISES_AT_ONCE = (own, old_context)
"""Before any operator: there is nothing for a graph."""


@pytest.mark.parametrize("function", [own, handled, broadcast, no_dimension, old_arguments, old_context])
@pytest.mark.parametrize("backend", BACKENDS)
def test_errors_that_are_warnings_are_eagers(backend, function):
    def happened(call):
        done = []
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("error")
            try:
                result = call(torch.ones(3, 4), done).tolist()
            except Warning as error:
                result = type(error), str(error), error.__cause__
        return result, done, [str(each.message) for each in shown]

    compiled = compile_api.compile(function, backend=backend)
    assert [happened(compiled) for _ in range(2)] == [happened(function)] * 2
    assert bool(compile_api.report(compiled).captured) == (function not in RAISES_AT_ONCE)


_PROGRAM = """
import torch, compile_api
@compile_api.compile
def f(x, w, n):
    h = torch.nn.functional.gelu(x @ w) * n
    print(end="")
    return h.softmax(-1).sum()
for n in range(2, 5):
    w = torch.ones(4, 4, requires_grad=True)
    f(torch.ones(n + 2, 4), w, n).backward()
assert w.grad is not None
"""


def test_a_whole_program_with_all_warnings_as_errors(tmp_path):
    environment = {**os.environ, "PYTHONWARNINGS": "error", "COMPILE_API_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
