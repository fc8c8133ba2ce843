"""A backend is a function from a graph to a callable."""

import pytest
import torch

import compile_api


def test_a_custom_backend_gets_the_graph_and_the_inputs():
    seen = []

    def custom_backend(gm, example_inputs):
        seen.append((str(gm.code), [type(x) for x in example_inputs]))
        return gm.forward

    f = compile_api.compile(lambda x: torch.relu(x) + 1, backend=custom_backend)
    assert torch.equal(f(torch.tensor([-1.0, 2.0])), torch.tensor([1.0, 3.0]))
    assert len(seen) == 1
    assert "relu" in seen[0][0]


def test_what_the_backend_returns_is_what_runs():
    def replaced(gm, example_inputs):
        return lambda *inputs: (torch.zeros(2),)

    f = compile_api.compile(lambda x: x + 1, backend=replaced)
    assert torch.equal(f(torch.ones(2)), torch.zeros(2))


def test_a_registered_backend_has_a_name():
    @compile_api.register_backend(name="doubling_for_test")
    def doubling(gm, example_inputs):
        """Runs the graph twice."""
        return lambda *inputs: (gm.forward(*inputs), gm.forward(*inputs))[1]

    assert "doubling_for_test" in compile_api.list_backends()
    f = compile_api.compile(lambda x: x * 3, backend="doubling_for_test")
    assert torch.equal(f(torch.ones(2)), torch.full((2,), 3.0))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor", "cudagraphs"])
def test_the_built_in_backends_agree(backend):
    def f(x, w):
        return torch.softmax(x @ w, dim=-1).sum(0)

    x, w = torch.randn(7, 5), torch.randn(5, 3)
    torch.testing.assert_close(compile_api.compile(f, backend=backend, fullgraph=True)(x, w), f(x, w))


def test_a_misspelt_backend_is_met_with_the_nearest():
    with pytest.raises(compile_api.UnknownBackend, match="did you mean 'inductor'"):
        compile_api.compile(lambda x: x, backend="inducter")


def test_a_misspelt_mode_or_option_too():
    with pytest.raises(compile_api.BadOption, match="did you mean 'reduce-overhead'"):
        compile_api.compile(lambda x: x, mode="reduce-overheads")
    with pytest.raises(compile_api.BadOption, match="did you mean 'trace'"):
        compile_api.compile(lambda x: x, options={"trce": True})


def test_disable_leaves_the_function_alone():
    def f(x):
        return x

    assert compile_api.compile(f, disable=True) is f
    assert compile_api.compile(disable=True)(f) is f
