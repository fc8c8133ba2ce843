"""What programs say about sizes and results: marks on tensors and functions."""

import pytest
import torch

import capture


@pytest.fixture
def graphs():
    return []


@pytest.fixture
def capturing(graphs):
    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    return lambda function, **how: capture.optimize(backend, strict=True, **how)(function)


def scaled(x):
    return x.sin() * x.shape[0]


def test_a_size_marked_as_varying_is_a_symbol_from_the_first_call(capturing, graphs):
    f = capturing(scaled)
    first = torch.randn(4, 3)
    capture.mark_dynamic(first, 0)
    for x in (first, torch.randn(7, 3), torch.randn(9, 3)):
        torch.testing.assert_close(f(x), scaled(x))
    assert len(graphs) == 1
    f(torch.randn(7, 4))
    assert len(graphs) == 2


def test_a_size_marked_as_fixed_is_captured_anew(capturing, graphs):
    f = capturing(scaled, dynamic=True)
    for length in (3, 4, 5):
        x = torch.randn(length, 3)
        capture.mark_static(x, 0)
        torch.testing.assert_close(f(x), scaled(x))
    assert len(graphs) == 3


def test_all_sizes_may_be_fixed(capturing, graphs):
    f = capturing(scaled, dynamic=True)
    x = torch.randn(3, 5)
    capture.mark_static(x)
    f(x)
    assert not any(isinstance(node.meta["val"], torch.SymInt) for node in graphs[0].graph.nodes if "val" in node.meta)


def test_torchs_marks_are_read(capturing, graphs):
    f = capturing(scaled)
    x = torch.randn(4, 3)
    x._dynamo_dynamic_indices = {0}  # what torch._dynamo.mark_dynamic leaves
    f(x)
    f(torch.randn(8, 3))
    assert len(graphs) == 1


def test_a_dimension_that_is_not_there_is_refused():
    with pytest.raises(IndexError, match="dimension 2 is marked, and the tensor has 2"):
        capture.mark_dynamic(torch.ones(2, 2), 2)


def test_a_marked_size_of_one_stays_a_number(capturing, graphs):
    f = capturing(scaled)
    x = torch.randn(1, 3)
    capture.mark_dynamic(x, [0, -1])
    torch.testing.assert_close(f(x), scaled(x))
    f(torch.randn(1, 8))
    assert len(graphs) == 1


def test_an_assumed_result_is_called_once(capturing, graphs):
    calls = []

    @capture.assume_constant_result
    def setting(name):
        calls.append(name)
        return {"scale": 3.0}[name]

    f = capturing(lambda x: x * setting("scale"))
    assert f(torch.ones(1)) == f(torch.ones(1)) == 3
    assert calls == ["scale"]
    assert len(graphs) == 1


def test_a_method_may_be_assumed_too(capturing, graphs):
    class Model(torch.nn.Module):
        @capture.assume_constant_result
        def size(self):
            return sum(len(str(p.shape)) for p in self.parameters())

        def forward(self, x):
            return x + self.size()

    assert capturing(Model())(torch.ones(1)) == 1
    assert len(graphs) == 1


def test_assuming_what_depends_on_tensors_ends_the_graph(capturing):
    @capture.assume_constant_result
    def total(x):
        return float(x.sum())

    assert capturing(lambda x: x * total(x + 1))(torch.ones(2))[0] == 4
    with pytest.raises(capture.Unsupported, match=r"total` is assumed to be constant"):
        capturing(lambda x: x * total(x + 1), nopython=True)(torch.ones(2))
