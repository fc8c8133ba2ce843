"""``explain`` says what one call did; ``export`` gives its graph."""

import pytest
import torch

import capture
import compile_api


def bar(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def test_an_explanation_has_the_facts_as_data():
    said = compile_api.explain(bar)(torch.ones(3), torch.ones(3))
    torch.testing.assert_close(said.result, bar(torch.ones(3), torch.ones(3)))
    assert (said.graph_count, said.graph_break_count) == (2, 1)
    assert said.op_count == sum(map(len, said.ops_per_graph)) >= 4
    assert said.break_reasons[0].location.line == bar.__code__.co_firstlineno + 2
    assert any("a" in guard for guard in said.guards)


def test_it_prints_line_reason_and_hint_on_one_screen():
    text = str(compile_api.explain(bar)(torch.ones(3), torch.ones(3)))
    for part in (
        "graphs captured    2",
        "graph breaks (1)",
        "if b.sum() < 0:",
        "try: ",
        "compile time",
        "memory saved",
    ):
        assert part in text
    assert len(text.splitlines()) < 25


def test_many_equal_breaks_are_one_entry():
    def loop(x):
        for _ in range(20):
            x = x + 1
            compile_api.graph_break()
        return x

    text = str(compile_api.explain(loop, backend="eager")(torch.ones(1)))
    assert len(text.splitlines()) < 30


def test_the_older_spelling_unpacks_into_six():
    sentence, guards, graphs, operators, breaks, text = compile_api.explain(bar, torch.ones(3), torch.ones(3))
    assert sentence.startswith("2 graphs")
    assert len(graphs) == len(operators) == 2
    assert len(breaks) == 1
    assert guards
    assert "graph breaks" in text


def test_explaining_leaves_what_was_compiled_alone():
    graphs = []
    f = compile_api.compile(lambda x: x + 1, backend=lambda gm, _: graphs.append(gm) or gm.forward)
    f(torch.ones(1))
    compile_api.explain(f)(torch.ones(1))
    f(torch.ones(1))
    assert len(graphs) == 1


def test_a_module_is_explained_too():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    said = compile_api.explain(model)(torch.ones(2, 3))
    assert said.graph_count == 1
    assert any("linear" in name for name in said.ops_per_graph[0])


@pytest.mark.parametrize("form", [lambda f, *a: compile_api.export(f)(*a), compile_api.export])
def test_export_gives_one_graph_and_its_guards(form):
    graph, guards = form(lambda x: x.sin() + 1, torch.ones(3))
    assert isinstance(graph, torch.fx.GraphModule)
    torch.testing.assert_close(graph(torch.ones(3)), torch.ones(3).sin() + 1)
    assert guards


def test_export_refuses_a_branch_with_its_line():
    with pytest.raises(capture.Unsupported, match=r"b\.sum\(\) < 0"):
        compile_api.export(bar, torch.ones(3), torch.ones(3))


def test_what_is_compiled_already_is_explained_as_it_was_written():
    compiled, module = compile_api.compile(lambda x: x.sin() + 1), compile_api.compile(torch.nn.Linear(3, 2))
    for function in (compiled, module):
        function(torch.ones(3))
        assert len(compile_api.explain(function)(torch.ones(3)).graphs) == 1


def test_it_tells_what_a_break_costs():
    said = compile_api.explain(bar, backend="eager")(torch.ones(3), torch.ones(3))
    (cost,) = said.costs
    first, second = said.graphs
    assert (cost.before, cost.after) == tuple(
        sum(n.op.startswith("call") for n in gm.graph.nodes) for gm in (first, second)
    )
    assert (cost.tensors, cost.bytes) == (2, 13), "x, and the truth that decides"
    assert cost.guards == len(said.report.frames[1].guards) > 0
    assert f"a graph of {cost.before} operators ends, one of {cost.after} operator begins" in str(said)
    assert not compile_api.explain(lambda x: x + 1, backend="eager")(torch.ones(1)).costs


def test_a_break_before_any_graph_costs_what_is_true():
    def f(x):
        print("first")
        return x + 1

    (cost,) = compile_api.explain(f, backend="eager")(torch.ones(1)).costs
    assert str(cost).startswith("no graph ends here, one of 1 operator begins")


def plus(a, b):
    return a + b


X, Y = torch.ones(3), torch.zeros(3)
WAYS = {
    "called after": lambda: compile_api.export(plus)(X, Y),
    "arguments": lambda: compile_api.export(plus, X, Y),
    "a name": lambda: compile_api.export(plus, X, b=Y),
    "a tuple": lambda: compile_api.export(plus, (X, Y)),
    "args": lambda: compile_api.export(plus, args=(X, Y)),
    "kwargs": lambda: compile_api.export(plus, args=(X,), kwargs={"b": Y}),
    "a tuple and a dictionary": lambda: compile_api.export(plus, (X,), {"b": Y}),
    "a tuple that is an argument": lambda: compile_api.export(lambda pair: pair[0] + pair[1], (X, Y)),
    "nothing": lambda: compile_api.export(lambda: torch.ones(3) + torch.zeros(3), ()),
    "a module": lambda: compile_api.export(torch.nn.ReLU(), (X,)),
}


@pytest.mark.parametrize("way", WAYS)
def test_export_as_people_call_it(way):
    gm, _ = WAYS[way]()
    assert isinstance(gm, torch.fx.GraphModule)
    assert any(node.op.startswith("call") for node in gm.graph.nodes)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (torch.ones(5), r"for a float32 tensor of sizes \(3,\) on cpu in x, not a float32 tensor of sizes \(5,\)"),
        (torch.ones(3, dtype=torch.float64), "not a float64 tensor"),
        (torch.ones(3, device="meta"), "on meta"),
        (3.0, "not 3.0"),
    ],
)
def test_an_exported_graph_refuses_other_tensors(given, said):
    graph, _ = compile_api.export(lambda x: x.sum() / x.shape[0])(torch.ones(3))
    assert graph(torch.full((3,), 2.0)) == 2
    with pytest.raises(compile_api.CompileApiError, match=said):
        graph(given)


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


def test_export_says_which_effects_are_left_out():
    with pytest.warns(
        capture.CaptureWarning, match="changes `self`, an object of class `Counting`: that is no part of the exported"
    ):
        compile_api.export(Counting())(torch.ones(1))


def test_export_says_what_to_do_about_sizes_that_vary():
    with pytest.raises(compile_api.BadOption, match=r"dynamic=True.*torch.export.export"):
        compile_api.export(plus, (X, Y), dynamic_shapes={"a": None, "b": None})
    with pytest.raises(TypeError, match="export takes a function or a module, not int"):
        compile_api.export(3)


@pytest.mark.parametrize("disable", [compile_api.disable, torch.compiler.disable])
def test_of_what_is_disabled_it_is_said(disable):
    def left_out(x):
        return x + 1

    assert "left_out is disabled: it ran in Python" in str(compile_api.explain(disable(left_out))(torch.ones(2)))
    with pytest.raises(capture.CaptureError, match=r"left_out.* is disabled, so it has no graph"):
        compile_api.export(disable(left_out))(torch.ones(2))
