"""What people get wrong with the engine alone: a sentence that says what happened, where, and what to do."""

import copy
import pickle
import traceback
import typing
import warnings

import numpy
import pytest
import torch
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import make_fx

import inductor
from inductor.assemble import bound

X, W = torch.randn(4, 3), torch.randn(3)


def function(x, w):
    return torch.softmax(x * w, -1).relu()


def traced():
    return make_fx(function)(X, W)


@pytest.fixture(scope="module")
def compiled():
    return inductor.compile(traced(), [X, W])


CALLS = {
    "too few": (lambda c: c(X), "(x_1, w_1) takes 2 inputs and got 1"),
    "too many": (lambda c: c(X, W, W), "takes 2 inputs and got 3"),
    "a list": (lambda c: c([X, W]), "got 1, a list: give what is in it one by one, or the list to `.call`"),
    "by name": (lambda c: c(X, w=W), "takes its inputs by position, and got w by name"),
    "None": (lambda c: c(X, None), "input w_1 of graph_", "is None; give a tensor"),
    "an integer": (lambda c: c(X, 3), "is the int 3; give a tensor"),
    "a float": (lambda c: c(X, 1.5), "is the float 1.5; give a tensor"),
    "an array": (lambda c: c(X.numpy(), W), "input x_1 of", "is a numpy.ndarray; give a tensor"),
    "another size": (lambda c: c(X[:2], W), "of size (2, 3); this graph was compiled for torch.float32 of size (4, 3)"),
    "another dtype": (lambda c: c(X.double(), W), "input x_1 is torch.float64"),
    "other strides": (lambda c: c(X.t().contiguous().t(), W), "input x_1 has strides (1, 4); this graph was compiled"),
    "another device": (lambda c: c(X.to("meta"), W), "input x_1 is on meta; this graph was compiled for cpu"),
    "a sparse tensor": (lambda c: c(X.to_sparse(), W), "is of layout torch.sparse_coo"),
    "requires grad": (lambda c: c(X, nn.Parameter(W)), "input w_1 of", "requires grad", "torch.no_grad()", "aotgrad"),
    "a short list": (lambda c: c.call([X]), ".call takes a list of 2 inputs and got a list of 1"),
    "a long tuple": (lambda c: c.call((X, W, W)), ".call takes a list of 2 inputs and got a tuple of 3"),
    "no list": (lambda c: c.call(None), ".call takes a list of 2 inputs and got None"),
    "a tensor for a list": (lambda c: c.call(X[:2]), "got a tensor, torch.float32 of size (2, 3)"),
    "pickled": (lambda c: pickle.dumps(c), "cannot be pickled", "compile it again"),
}

GRAPHS = {
    "a function": (lambda: inductor.compile(function, [X, W]), "the function function: make_fx(f)(*example_inputs)"),
    "a module": (lambda: inductor.compile(nn.Linear(3, 3), [X]), "linear.Linear", "torch.export.export(module"),
    "a graph alone": (lambda: inductor.compile(traced().graph, [X, W]), "give torch.fx.GraphModule(module, graph)"),
    "TorchScript": (lambda: inductor.compile(torch.jit.trace(function, (X, W)), [X, W]), "trace what it was made of"),
    "no graph at all": (lambda: inductor.compile("graph", [X]), "takes a torch.fx.GraphModule, not a str"),
    "too few": (lambda: inductor.compile(traced(), [X]), "(x_1, w_1) has 2 inputs and was given 1 example inputs"),
    "too many": (lambda: inductor.compile(traced(), [X, W, W]), "has 2 inputs and was given 3 example inputs"),
    "one tensor": (lambda: inductor.compile(traced(), X), "example_inputs is a tensor", "give a list"),
    "none": (lambda: inductor.compile(traced(), None), "example_inputs is None; give a list"),
    "by name": (lambda: inductor.compile(traced(), {"x": X, "w": W}), "example_inputs is a dict; give a list"),
    "None among them": (lambda: inductor.compile(traced(), [X, None]), "example of input w_1 is None", "traced with a"),
    "an integer": (lambda: inductor.compile(traced(), [X, 3]), "the example of input w_1 is the int 3"),
    "a float": (lambda: inductor.compile(traced(), [X, 3.0]), "the example of input w_1 is the float 3.0"),
    "another size": (lambda: inductor.compile(traced(), [X[:2], W]), "the graph was traced with", "trace it again"),
    "other strides": (lambda: inductor.compile(traced(), [torch.randn(3, 4).t(), W]), "strides (1, 4)"),
    "devices": (lambda: inductor.compile(traced(), [X, W.to("meta")]), "on meta; the graph was traced with", "on cpu"),
    "a list among them": (
        lambda: inductor.compile(fx.symbolic_trace(lambda xs: xs[0]), [[X]]), "is a list", "give what is in it",
    ),
    "an array": (
        lambda: inductor.compile(fx.symbolic_trace(lambda x: x + 1), [numpy.ones(3)]), "is a numpy.ndarray",
    ),
    "an unknown option": (lambda: inductor.compile(traced(), [X, W], options={"tarce": 1}), "unknown option tarce"),
    "options of no use": (lambda: inductor.compile(traced(), [X, W], options="fast"), "options is a mapping", "'fast'"),
}  # fmt: skip


OPTIONS = {
    name: {bool, str, int} & set(typing.get_args(hint) or (hint,))
    for name, hint in typing.get_type_hints(inductor.Options).items()
}
"""What plain types each option takes; "fused" is no type, and flags are a tuple."""


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("wrong", ["yes please", 1, 1.5, True, b"", ["-O1"], (1,)], ids=repr)
def test_an_option_of_another_type_says_which_it_is(name, wrong):
    if any(type(wrong) is kind for kind in OPTIONS[name]):
        return
    for options in ({name: wrong}, inductor.Options(**{name: wrong})):
        with pytest.raises((TypeError, ValueError)) as raised:
            inductor.compile(None, [X, W], options=options)
        assert str(raised.value).startswith(f"option {name} is ")
        assert str(raised.value).endswith(f", not {wrong!r}")


def test_the_list_may_be_a_tuple(compiled):
    torch.testing.assert_close(compiled.call((X, W))[0], function(X, W))


@pytest.mark.parametrize("mistaken", [[X], None, (X, 2.0, W)])
def test_numbers_that_are_part_of_a_graph_are_not_looked_for_in_what_is_no_list(mistaken):
    compiled = inductor.compile(fx.symbolic_trace(lambda x, k: x * k), [X, 2.0])
    torch.testing.assert_close(compiled.call((X, 2.0))[0], X * 2)
    with pytest.raises(inductor.BadCall, match="takes a list of 2 inputs and got"):
        compiled.call(mistaken)


def test_a_graph_that_runs_operator_by_operator_is_called_alike():
    with pytest.warns(RuntimeWarning, match="operator by operator"):
        compiled = inductor.compile(fx.symbolic_trace(lambda x: x * x.sum().item()), [X])
    torch.testing.assert_close(compiled.call((X,))[0], X * X.sum())
    with pytest.raises(inductor.BadCall, match="takes a list of 1 input and got None"):
        compiled.call(None)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_cannot_be_right_says_why(compiled, name):
    mistake, *parts = CALLS[name]
    with pytest.raises((inductor.InductorError, TypeError)) as raised:
        mistake(compiled)
    assert all(part in str(raised.value) for part in parts), raised.value


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("name", GRAPHS)
def test_what_cannot_be_compiled_says_what_could(name):
    mistake, *parts = GRAPHS[name]
    with pytest.raises((inductor.InductorError, TypeError)) as raised:
        mistake()
    assert all(part in str(raised.value) for part in parts), raised.value


def test_errors_are_those_of_python_too():
    assert issubclass(inductor.BadCall, TypeError)
    assert issubclass(inductor.NotAGraph, TypeError)
    assert issubclass(inductor.BadInput, ValueError)


def test_without_gradients_parameters_are_inputs_like_others(compiled):
    with torch.no_grad():
        torch.testing.assert_close(compiled(X, nn.Parameter(W))[0], function(X, W))


def test_parameters_within_a_graph_are_told_of_once():
    compiled = inductor.compile(fx.symbolic_trace(nn.Linear(3, 2)), [X])
    with pytest.warns(UserWarning, match=r"holds parameters that require grad \(weight, bias\)"):
        compiled(X)
    compiled(X)


@pytest.mark.parametrize("value", [3, 2.5, True, float("nan")])
def test_numbers_that_became_part_of_the_graph_are_not_exchanged_in_silence(value):
    compiled = inductor.compile(fx.symbolic_trace(lambda x, k: x * k), [X, value])
    torch.testing.assert_close(compiled(X, value)[0], X * value, equal_nan=True)
    for call in (lambda: compiled(X, 7), lambda: compiled.call([X, 7])):
        with pytest.raises(inductor.BadInput, match=r"input k was .* when the graph was compiled and is 7"):
            call()


def test_a_default_stands_in_for_an_example():
    def scaled(x, k=2.0):
        return x * k

    compiled = inductor.compile(fx.symbolic_trace(scaled), [X])
    torch.testing.assert_close(compiled(X)[0], X * 2)
    torch.testing.assert_close(compiled(X, 2.0)[0], X * 2)


def test_a_graph_that_cannot_be_traced_runs_and_says_where():
    graph = fx.symbolic_trace(lambda x: x * x.sum().item())
    with pytest.warns(RuntimeWarning, match=r"operator by operator: it cannot be traced.* where x is torch.float32"):
        compiled = inductor.compile(graph, [X])
    torch.testing.assert_close(compiled(X)[0], X * X.sum())


def test_a_graph_that_cannot_run_on_its_examples_says_at_which_line():
    with pytest.warns(RuntimeWarning, match=r"cannot be traced at `mul = x \* w` where .* on meta"):
        inductor.compile(fx.symbolic_trace(function), [X, W.to("meta")])


def test_a_graph_that_breaks_the_rules_says_which():
    graph = fx.Graph()
    x = graph.placeholder("x")
    first = graph.call_function(torch.sin, (x,))
    graph.output(graph.call_function(torch.cos, (first,)))
    module = fx.GraphModule({}, graph)
    first.prepend(next(node for node in graph.nodes if node.target is torch.cos))
    module.recompile()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(inductor.NotAGraph, match="no well-formed graph"):
            inductor.compile(module, [X])


def test_a_graph_without_outputs_returns_nothing():
    graph = fx.Graph()
    graph.call_function(torch.sin, (graph.placeholder("x"),))
    assert not any(inductor.compile(fx.GraphModule({}, graph), [X])(X))


def test_inputs_that_share_memory_with_one_that_is_written_are_refused():
    compiled = inductor.compile(fx.symbolic_trace(lambda a, b: (a.add_(1), a + b)), [X.clone(), X.clone()])
    with pytest.raises(inductor.BadInput, match=r"inputs .* share memory, and the graph writes to the former"):
        compiled(X, X)


def test_a_copy_is_the_same_compiled_graph(compiled):
    assert copy.copy(compiled) is compiled
    assert copy.deepcopy(compiled) is compiled
    assert repr(compiled).endswith("(x_1, w_1): 1 kernels>")


RETURNED = {
    "itself": lambda x: x.add_(1),
    "itself, later": lambda x: (x.zero_(), x)[1],
    "a window": lambda x: x[::2].mul_(2),
    "its transpose": lambda x: (x.add_(1).t(), x[0]),
}


@pytest.mark.parametrize("name", RETURNED)
def test_what_lies_in_an_input_that_is_written_is_that_input(name):
    given, expected = X.clone(), X.clone()
    found = inductor.compile(fx.symbolic_trace(RETURNED[name]), [X.clone()])(given)
    results = RETURNED[name](expected)
    for result, wanted in zip(found, results if isinstance(results, tuple) else (results,), strict=True):
        torch.testing.assert_close(result, wanted)
        assert result.untyped_storage().data_ptr() == given.untyped_storage().data_ptr()
        assert (result is given) == (wanted is expected)


def test_images_are_laid_out_in_a_graph():
    with pytest.raises(inductor.NotAGraph, match=r"inductor.lay_out_images takes a torch.fx.Graph, not a "):
        inductor.lay_out_images(traced())


def test_tracebacks_show_the_wrapper_that_raised_and_none_that_is_gone():
    for number in range(100):
        call = bound("graph", f"def call(arguments):\n    raise ValueError  # in number {number}.\n", {})
        try:
            call([])
        except ValueError:
            assert f"in number {number}." in traceback.format_exc()
        del call
