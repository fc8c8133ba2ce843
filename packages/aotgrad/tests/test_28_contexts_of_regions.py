"""Graphs within a graph (a checkpoint's region): what is refused within one leaves nothing switched behind."""

import contextlib
import gc

import pytest
import torch
from torch import fx
from torch.utils.checkpoint import checkpoint

import aotgrad

enter, leave = torch.autograd.grad_mode._enter_inference_mode, torch.autograd.grad_mode._exit_inference_mode


def region(operation):
    """`operation` in inference mode."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    mode = graph.call_function(enter, (True,))
    result = graph.call_method(operation, (x,))
    graph.call_function(leave, (mode,))
    graph.output(result)
    return fx.GraphModule(torch.nn.Module(), graph)


@pytest.mark.parametrize("operation", ["sin", "item"])
def test_modes_are_what_they_were(operation):
    """Whether or not the first attempt at tracing fails within the region, as it does for what depends on values."""
    graph, root = fx.Graph(), torch.nn.Module()
    root.region = region(operation)
    x = graph.placeholder("x")
    graph.output((graph.call_function(checkpoint, (graph.get_attr("region"), x), {"use_reentrant": False}),))
    gm, x = fx.GraphModule(root, graph), torch.ones(1, requires_grad=True)
    with contextlib.suppress(aotgrad.AotgradError):
        aotgrad.compile(gm, [x], forward=aotgrad.run_eagerly)(x)
    gc.collect()
    assert not torch.is_inference_mode_enabled()
    assert (x * 2).item() == 2
