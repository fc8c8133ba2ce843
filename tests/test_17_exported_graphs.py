"""Graphs that torch's own export makes are compiled by inductor as they are."""

import pytest
import torch
import torch.nn.functional as F

import inductor

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch's export warns of itself


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        return F.log_softmax(self.second(F.gelu(self.first(x))), -1), x.t() * 2


def exported(net, *args, **options):
    return torch.export.export(net.eval(), args, **options)


def test_the_flat_graph_with_parameters_as_inputs():
    net, x = Net(), torch.randn(5, 8)
    program = exported(net, x)
    given = [*(value.detach().clone() for value in (*net.parameters(), *net.buffers())), x]
    compiled = inductor.compile(program.graph_module, given, options={"fallback": False})
    with torch.no_grad():
        torch.testing.assert_close(tuple(compiled(*given)), net(x))
    assert given[-2] == 1  # the buffer, written in place
    assert compiled.report.fallbacks == ()


def test_the_module_form():
    net, x = Net(), torch.randn(5, 8)
    module = exported(net, x).module()
    compiled = inductor.compile(module, [x], options={"fallback": False})
    with torch.no_grad():
        torch.testing.assert_close(tuple(compiled(x)), net(x))


def test_the_core_form():
    net, x = Net(), torch.randn(5, 8)
    program = exported(net, x).run_decompositions()
    given = [*(value.detach().clone() for value in (*net.parameters(), *net.buffers())), x]
    with torch.no_grad():
        _, *results = inductor.compile(program.graph_module, given, options={"fallback": False})(*given)
        torch.testing.assert_close(tuple(results), net(x))
