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
    torch.testing.assert_close(graph(torch.ones(3))[0], torch.ones(3).sin() + 1)
    assert guards


def test_export_refuses_a_branch_with_its_line():
    with pytest.raises(capture.Unsupported, match=r"b\.sum\(\) < 0"):
        compile_api.export(bar, torch.ones(3), torch.ones(3))


def test_what_is_compiled_already_is_explained_as_it_was_written():
    compiled, module = compile_api.compile(lambda x: x.sin() + 1), compile_api.compile(torch.nn.Linear(3, 2))
    for function in (compiled, module):
        function(torch.ones(3))
        assert len(compile_api.explain(function)(torch.ones(3)).graphs) == 1
