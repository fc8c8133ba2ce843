"""Numbers over all graphs, and what a report says of one."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import inductor


def compiled(function, *inputs, **options):
    return inductor.compile(make_fx(function)(*inputs), inputs, options=options)


def test_metrics_count_what_was_compiled(tmp_path):
    x = torch.randn(64, 33)
    inductor.metrics.reset()
    compiled(lambda x: torch.softmax(x * 2, -1).sort()[0] @ x.t(), x, cache_dir=str(tmp_path))
    found = inductor.metrics.as_dict()
    assert (found["graphs"], found["kernels"], found["library_calls"], found["fallbacks"]) == (1, 1, 1, 1)
    assert (found["nests"], found["fused_nests"], found["kernels_from_cache"]) == (3, 2, 0)
    assert found["bytes"] == 2 * x.nbytes


def test_reset_starts_again(tmp_path):
    compiled(lambda x: x + 1, torch.ones(3), cache_dir=str(tmp_path))
    inductor.metrics.reset()
    assert set(inductor.metrics.as_dict().values()) == {0}


def test_a_report_lists_what_was_lowered_and_what_was_not(tmp_path):
    x = torch.randn(8, 8)
    report = compiled(lambda x: (x * 2 + 1).sort()[0].relu() @ x * 3, x, cache_dir=str(tmp_path)).report
    assert report.lowered == {"aten.mul.Tensor": 2, "aten.add.Tensor": 1, "aten.relu.default": 1}
    assert [fallback.operator for fallback in report.fallbacks] == ["aten.sort.default"]
    text = str(report)
    assert "lowered: aten.add.Tensor, aten.mul.Tensor x2, aten.relu.default" in text
    assert "fallback aten.sort.default: no lowering" in text
    assert "library aten.mm.default" in text


def test_a_graph_that_cannot_be_built_is_a_failure():
    inductor.metrics.reset()
    with pytest.warns(RuntimeWarning, match="runs operator by operator: no C"):
        compiled(lambda x: x + 1, torch.ones(3), compiler="no-such-compiler")
    assert (inductor.metrics.failures, inductor.metrics.kernels) == (1, 0)
