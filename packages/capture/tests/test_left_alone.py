"""Packages whose frames CPython runs: one table, with a reason for each row."""

import types

import pytest
import torch

import capture
from capture.entry.left_alone import PACKAGES_LEFT_ALONE

PROGRAM = """
def computes(x):
    return x.sin() + x.cos()
"""


def graphs_of_a_frame_of(package, x):
    """How many graphs come of a function of that package, which a program calls where its own graph ended."""
    module = types.ModuleType(f"{package}.somewhere")
    exec(compile(PROGRAM, f"/of/{package}.py", "exec"), vars(module))

    def program(x):
        capture.graph_break()
        return module.computes(x)

    capture.reset()
    assert torch.equal(capture.optimize("eager")(capture.disable_alone(program))(x), program(x))
    return sum(isinstance(record, capture.GraphRecord) for record in capture.records())


@pytest.mark.parametrize("package", PACKAGES_LEFT_ALONE)
def test_a_frame_of_such_a_package_is_left_to_cpython(package):
    assert PACKAGES_LEFT_ALONE[package]
    assert graphs_of_a_frame_of(package, torch.ones(3)) == 0


@pytest.mark.parametrize("package", ["numpyro", "triton_kernels", "program"])
def test_a_frame_of_another_package_is_captured(package):
    assert graphs_of_a_frame_of(package, torch.ones(3)) == 1
