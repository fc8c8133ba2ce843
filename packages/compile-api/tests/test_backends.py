"""The table of backends: who is in it, who is ready, and what is said of the rest."""

import pytest
import torch

import capture
import compile_api
from compile_api.backends import backend, describe_backends, lookup


def test_the_built_in_backends_are_listed():
    assert {"eager", "aot_eager", "inductor", "cudagraphs", "aot_cudagraphs"} <= set(compile_api.list_backends())


def test_a_backend_that_lacks_its_package_says_how_to_get_it():
    @backend("needy", note="for this test", needs=["no_such_module"], install="pip install no-such-module")
    def needy(ctx):
        raise AssertionError("never made")

    assert "needy" not in compile_api.list_backends()
    assert [entry.missing for entry in describe_backends() if entry.name == "needy"] == [("no_such_module",)]
    with pytest.raises(compile_api.BackendNotReady, match="needs no_such_module: pip install no-such-module"):
        lookup("needy")


def test_a_plain_function_is_a_backend():
    def mine(gm, example_inputs):
        return gm.forward

    assert lookup(mine).make(None) is mine
    assert lookup(mine).name == "mine"


def test_registering_works_as_decorator_with_and_without_a_name():
    @compile_api.register_backend
    def plainly_named(gm, example_inputs):
        """What it does."""

    @compile_api.register_backend(name="otherwise_named")
    def another(gm, example_inputs): ...

    assert lookup("plainly_named").make(None) is plainly_named
    assert lookup("plainly_named").note == "What it does."
    assert lookup("otherwise_named").make(None) is another


def test_a_built_in_backend_is_not_replaced():
    def inductor(gm, example_inputs): ...

    with pytest.raises(ValueError, match="'inductor' is built in"):
        compile_api.register_backend(inductor)
    for _ in range(2):  # a cell of a notebook that runs again

        @compile_api.register_backend
        def of_a_cell(gm, example_inputs): ...

    assert lookup("of_a_cell").make(None) is of_a_cell


def test_what_a_backend_gives_in_the_place_of_results_is_told_by_its_name():
    def careless(gm, example_inputs):
        return lambda *args: 3

    with pytest.raises(capture.BackendError, match="what the backend careless made of"):
        compile_api.compile(lambda x: x + 1, backend=careless)(torch.ones(2))


def test_every_built_in_backend_has_a_note():
    assert all(entry.note for entry in describe_backends() if entry.make.__module__ == "compile_api.wiring")


def test_a_backend_is_found_by_its_path(program):
    program("somewhere", "def compile_graph(gm, inputs):\n    return gm.forward\n")
    assert compile_api.compile(lambda x: x + 1, backend="somewhere:compile_graph")(torch.ones(1)) == 2
    with pytest.raises(compile_api.UnknownBackend, match="cannot be imported"):
        compile_api.compile(lambda x: x, backend="somewhere:nothing")


@pytest.mark.parametrize("name", ["aot_nvfuser", "aot_ts_nvfuser", "nvprims_nvfuser", "fx2trt"])
def test_older_names_mean_the_same(name):
    entries = {entry.name: entry for entry in describe_backends()}
    assert entries[name].make is entries["tensorrt" if name == "fx2trt" else "nvfuser"].make


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_mistake_in_one_direction_is_not_the_users_problem(direction, monkeypatch):
    from compile_api import wiring
    from compile_api.backends import Context
    from compile_api.ledger import Ledger
    from compile_api.options import CompileOptions
    from compile_api.progress import Progress

    def compiler(name):
        def compile_graph(gm, example_inputs):
            if name == direction:
                raise ZeroDivisionError("ours")
            return wiring.aotgrad.run_eagerly(gm, example_inputs)

        return compile_graph

    ctx = Context(CompileOptions(strict=False), Ledger(), Progress())
    compile_graph = wiring.through_aotgrad(ctx, compiler, None)
    x = torch.randn(3, requires_grad=True)
    graph = torch.fx.symbolic_trace(lambda x: (x.sin() * 2,))
    with pytest.warns(UserWarning, match="ZeroDivisionError: ours"):
        compile_graph(graph, [x])(x)[0].sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach().cos())
    assert ctx.ledger.refused()[0].stage == "compiler"


def test_a_backend_called_by_others_looks_at_what_it_is_given():
    graph = torch.fx.symbolic_trace(lambda x: x * 2)
    compiled = compile_api.backend_function("inductor")(graph, [torch.ones(4)])
    with pytest.raises(ValueError, match="compiled for"):
        compiled(torch.ones(5))


def test_parameters_whose_memory_is_exchanged_are_seen_by_guards():
    module = torch.nn.Linear(4, 4)
    x = torch.randn(4, 4)
    compiled = compile_api.compile(lambda x: module.weight * 2 + x)
    for data in (torch.randn(4, 4).t(), torch.randn(8, 8)[::2, ::2], torch.randn(4, 4).double(), torch.randn(1, 4)):
        module.weight.data = data
        assert torch.equal(compiled(x), module.weight * 2 + x)
    assert len(compile_api.report(compiled).captured) == 4


@pytest.mark.parametrize(
    ("error", "said"), [(OSError(), "OSError, which says no more"), (OSError("\nit"), "OSError: it")]
)
def test_what_fails_without_a_word_is_told_in_a_sentence(error, said):
    class Refuses(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise error

    def backend(gm, example_inputs):
        raise error

    with pytest.raises(capture.BackendError, match=rf"a graph of sin: {said}$"):
        capture.optimize(backend)(sin)(torch.ones(2))
    compiled = compile_api.compile(lambda x: Refuses.apply(x), backend="aot_eager")
    compiled(torch.ones(2, requires_grad=True))
    assert f"autograd cannot run backward here ({said})" in str(compile_api.report(compiled))


def sin(x):
    return x.sin()
