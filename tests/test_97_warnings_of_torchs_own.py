"""Warnings that torch gives from C++ while a function runs in eager: given by what is compiled of it, at its lines."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys, warnings
import torch, compile_api

def penalised(x):
    (x ** 3).sum().backward(create_graph=True)
    return x.grad.detach()

def scaled(x):
    return x * float((x * 2).sum())

function, backend, action = globals()[sys.argv[1]], sys.argv[2], sys.argv[3]
call = function if backend == "none" else compile_api.compile(function, backend=backend)
torch.set_warn_always(sys.argv[4] == "always")
for size in (2, 3, 4, 4):
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter(action)
        try:
            call(torch.ones(size, requires_grad=True))
            print([str(each.message)[:40] for each in given if "create_graph" in str(each) or "scalar" in str(each)])
        except UserWarning as warning:
            print("raised", str(warning)[:40])
"""


@pytest.mark.parametrize("often", ["always", "once"])
@pytest.mark.parametrize("action", ["always", "error"])
@pytest.mark.parametrize("function", ["penalised", "scaled"])
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_they_come_when_they_come_in_eager(function, backend, action, often):
    def told(backend):
        command = [sys.executable, "-c", PROGRAM, function, backend, action, often]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert told(backend) == told("none")
