"""``install`` puts us where programs look for ``torch.compile``; ``uninstall`` takes us away."""

import pytest
import torch
from torch import nn

import compile_api


@pytest.fixture(autouse=True)
def installed():
    before = torch.compile, torch.compiler.compile, torch.compiler.disable, torch.compiler.set_stance
    compile_api.install()
    yield
    compile_api.uninstall()
    assert (torch.compile, torch.compiler.compile, torch.compiler.disable, torch.compiler.set_stance) == before


def test_torch_compile_is_ours():
    @torch.compile(fullgraph=True)
    def f(x):
        return torch.sin(x) + 1

    torch.testing.assert_close(f(torch.ones(3)), torch.ones(3).sin() + 1)
    assert len(compile_api.served_reports()) == 1
    assert len(compile_api.served_reports()[0].kernels) == 1


def test_modules_compile_in_place_through_us():
    module = nn.Linear(3, 3)
    module.compile(backend="aot_eager")
    module(torch.ones(1, 3))
    assert compile_api.report(module).captured[0].backend == "aot_eager"


def test_twice_is_once():
    compile_api.install()
    compile_api.uninstall()
    assert torch.compile.__module__ != "compile_api.dropin"


def test_torch_compilers_markers_are_served():
    @torch.compiler.disable
    def outside(x):
        return x * 2

    f = torch.compile(lambda x: outside(x + 1), backend="eager")
    assert torch.equal(f(torch.ones(1)), torch.full((1,), 4.0))
    assert len(compile_api.served_reports()[0].breaks) == 1
    with torch.compiler.set_stance("force_eager"):
        f(torch.ones(1))
    torch.compiler.cudagraph_mark_step_begin()
    torch.compiler.reset()
    assert "inductor" in torch.compiler.list_backends()


def test_what_only_torch_has_is_said_and_left_out():
    with pytest.warns(UserWarning, match="'shape_padding' has no counterpart"):
        f = torch.compile(lambda x: x + 1, backend="eager", options={"shape_padding": True, "triton.cudagraphs": False})
    assert f(torch.ones(1)) == 2


def test_modes_are_ours_too():
    f = torch.compile(lambda x: x + 1, mode="max-autotune-no-cudagraphs")
    assert f(torch.ones(1)) == 2
    with pytest.raises(compile_api.CompileApiError, match="modes are default"):
        torch.compile(lambda x: x, mode="fastest")
