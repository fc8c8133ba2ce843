"""What torch's own kernels do not implement is asked of torch, by calls that cost nothing."""

import pytest
import torch
from compiled import traced

import inductor
from inductor import refused
from inductor.deps import dependencies
from inductor.lower import lower
from inductor.raising import order_of

aten = torch.ops.aten
BOOLEANS, HALVES = torch.ones(2, 3, dtype=torch.bool), torch.ones(3, dtype=torch.bfloat16)
POSITION = torch.zeros((), dtype=torch.int64)


@pytest.mark.parametrize(
    ("target", "args", "expected"),
    [
        (aten.argmax.default, (BOOLEANS,), True),
        (aten.threshold.default, (BOOLEANS, 0, 2), True),
        (aten.sum.default, (BOOLEANS,), False),
        (aten.argmax.default, (HALVES,), False),
        (aten.glu.default, (POSITION.expand(4),), True),
        (aten.reflection_pad1d.default, (BOOLEANS, [2, 2]), True),  # one element is too short for that
        (aten.reflection_pad1d.default, (HALVES.expand(2, 3), [2, 2]), False),
        (aten.multilabel_margin_loss_forward.default, (HALVES[0], POSITION, 1), True),  # 1 is no position in it
        (aten.heaviside.default, (HALVES, BOOLEANS), True),  # not beside one another
        (aten.nll_loss_forward.default, (HALVES.float().expand(2, 3), POSITION.int().expand(2), None, 1, 0), True),
        (aten.nll_loss_forward.default, (HALVES.float().expand(2, 3), POSITION.expand(2), None, 1, 0), False),
        (aten.nll_loss_forward.default, (torch.ones(2, 3), POSITION.expand(2), POSITION.expand(3), 1, 0), True),
        (aten.threshold.default, (BOOLEANS, 0, 1 << 40), True),  # a large number is no large result
    ],
)
def test_torch_tells_what_it_does_not_implement(target, args, expected):
    assert refused.is_unimplemented(target, args, {}) is expected


def test_no_large_result_is_made_to_ask(monkeypatch):
    monkeypatch.setattr(refused, "_ask", lambda *asked: pytest.fail("asked"))
    assert not refused.is_unimplemented(aten.new_full.default, (HALVES, [50_000, 50_000], 1.0), {})


def test_asking_while_a_graph_is_traced_leaves_no_trace():
    from torch.fx.experimental.proxy_tensor import make_fx

    traced = make_fx(lambda x: aten.glu(x), tracing_mode="fake", decomposition_table=inductor.decompositions())
    graph = traced(POSITION.expand(4)).graph
    assert [node.target for node in graph.nodes if node.op == "call_function"] == [aten.glu.default]


@pytest.mark.parametrize(("dtype", "raisers"), [(torch.bool, {0}), (torch.float64, set())])
def test_what_torch_refuses_may_raise_before_an_input_is_written(dtype, raisers):
    inputs = torch.zeros(3), torch.ones(1, 4, 4, dtype=dtype)
    graph = lower(traced(lambda kept, x: (aten.adaptive_max_pool2d(x, [2, 2]), kept.add_(1)), *inputs), inputs)
    assert order_of(graph, dependencies(graph)[0]).raisers == raisers
