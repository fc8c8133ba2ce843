"""Delta debugging over graphs: what is left is needed, and fails as the whole did."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import fx

import compile_api
from compile_api.commands.main import main
from compile_api.minify import failure_of, minify, write_script
from compile_api.stored_graph import StoredGraph

WRONG = """
import torch

class Wrong(torch.fx.Interpreter):
    def run_node(self, n):
        value = super().run_node(n)
        return value * 1.5 if "tanh" in str(n.target) else value

def wrong(gm, example_inputs):
    return Wrong(gm).run

def crashing(gm, example_inputs):
    if any("tanh" in str(n.target) for n in gm.graph.nodes):
        import os
        import signal

        os.kill(os.getpid(), signal.SIGSEGV)
    return gm.forward

def raising(gm, example_inputs):
    if any("tanh" in str(n.target) for n in gm.graph.nodes):
        raise ZeroDivisionError("for this test")
    return gm.forward
"""


def refuses(*needed):
    """A compiler that cannot take graphs with all of these operators."""

    def compiler(gm, example_inputs):
        targets = {getattr(node.target, "__name__", node.target) for node in gm.graph.nodes}
        if targets.issuperset(needed):
            raise NotImplementedError(f"{needed}")
        return gm.forward

    return compiler


def chain(x):
    y = torch.sin(x)
    for _ in range(10):
        y = torch.cos(y) + x
    y = torch.tanh(y)
    for _ in range(10):
        y = torch.exp(-y) + 1
    return (torch.sqrt(y.abs()),)


def test_two_operators_far_apart_are_what_is_left():
    found = minify(fx.symbolic_trace(chain), [torch.randn(4)], failure_of(refuses("sin", "sqrt")))
    assert sorted(found.operators) == ["sin", "sqrt"]
    assert found.operators_before > 40
    assert found.cases_tried < 200


def test_sizes_shrink_too():
    found = minify(fx.symbolic_trace(chain), [torch.randn(64, 32)], failure_of(refuses("tanh")))
    assert found.operators == ["tanh"]
    assert all(size <= 2 for size in found.inputs[0].shape)


def test_what_does_not_fail_is_not_minified():
    with pytest.raises(compile_api.NothingToMinify, match="agrees with eager"):
        minify(fx.symbolic_trace(chain), [torch.randn(4)], failure_of(refuses("never")))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(["sin", "cos", "tanh", "exp"]), min_size=1, max_size=12), st.data())
def test_one_bad_operator_is_always_found(names, data):
    bad = data.draw(st.sampled_from(names))

    def program(x):
        for name in names:
            x = getattr(torch, name)(x)
        return (x,)

    found = minify(fx.symbolic_trace(program), [torch.randn(3)], failure_of(refuses(bad)))
    assert found.operators == [bad]


def test_a_stored_graph_comes_back(tmp_path):
    gm = fx.symbolic_trace(lambda x, n: (torch.nn.functional.softmax(x, -1, dtype=torch.float64) * n, x.to("cpu")))
    x = torch.randn(3, 4, requires_grad=True).t()
    StoredGraph.of(gm, [x, 3]).with_inputs([x, 3], 1 << 20).save(tmp_path / "graph.pt")
    stored = StoredGraph.load(tmp_path / "graph.pt")
    again, number = stored.example_inputs()
    assert torch.equal(again, x)
    assert again.stride() == x.stride()
    assert torch.equal(stored.module()(again, number)[0], gm(x, 3)[0])


def test_large_inputs_are_made_anew():
    gm = fx.symbolic_trace(lambda x: (x + 1,))
    stored = StoredGraph.of(gm, [torch.zeros(100)]).with_inputs([torch.zeros(100)], largest=10)
    first, second = stored.example_inputs()[0], stored.example_inputs()[0]
    assert first.abs().sum() > 0
    assert torch.equal(first, second)


@pytest.mark.parametrize(("backend", "failure"), [("wrong", "naccurate"), ("raising", "ZeroDivisionError")])
def test_the_command_writes_a_script_that_fails_alike(backend, failure, program, tmp_path, monkeypatch, capsys, python):
    program("faulty_backends", WRONG)
    monkeypatch.chdir(tmp_path)

    def f(x):
        return torch.tanh(torch.sin(x) + 1).cos().sum()

    compile_api.compile(f, backend="eager", options={"debug": True})(torch.randn(8, 8))
    folder = next((tmp_path / "compile_debug").glob("graph_0_*"))
    assert main(["minify", str(folder), "--backend", f"faulty_backends:{backend}"]) == 0
    assert "1 of 5 operators are enough (tanh)" in capsys.readouterr().out
    done = python("minimal.py", cwd=tmp_path)
    assert done.returncode == 1
    assert failure in (tmp_path / "minimal.py").read_text()
    assert ("off by" if backend == "wrong" else "ZeroDivisionError: for this test") in done.stderr


def test_a_folder_without_a_graph_is_met_with_what_to_do(tmp_path, capsys):
    assert main(["minify", str(tmp_path)]) == 2
    assert "run the program under COMPILE_DEBUG=1" in capsys.readouterr().err


def test_a_crash_is_a_failure_like_any_other(program, tmp_path, monkeypatch, capsys):
    program("faulty_backends", WRONG)
    monkeypatch.chdir(tmp_path)
    graph = fx.symbolic_trace(lambda x: (torch.tanh(x + 1),))
    StoredGraph.of(graph, [torch.ones(3)]).save(tmp_path / "graph.pt")
    assert main(["minify", "graph.pt", "--backend", "faulty_backends:crashing", "--isolated"]) == 0
    assert "crash with signal 11: 1 of 2 operators are enough (tanh)" in capsys.readouterr().out


def test_parts_of_a_graph_leave_the_contexts_that_they_enter():
    graphs = []

    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
        with torch.no_grad():
            z = torch.sin(y)
        return torch.tanh(z.float() + y.float())

    compile_api.compile(f, backend=lambda gm, _: graphs.append(gm) or gm.forward)(torch.randn(4, 4))
    found = minify(graphs[0], [torch.randn(4, 4)], failure_of(refuses("tanh")))
    assert found.operators == ["tanh"]
    assert not torch.is_autocast_enabled("cpu")
    assert torch.is_grad_enabled()


def test_modules_of_a_graph_come_along(tmp_path, program, python):
    program("faulty_backends", WRONG.replace('"tanh" in str(n.target)', 'n.op == "call_module"'))
    gm = fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()))
    gm.graph.output_node().args = ((gm.graph.output_node().args[0],),)
    gm.recompile()
    fails = failure_of(compile_api.backend_function("faulty_backends:wrong"))
    found = minify(gm, [torch.randn(2, 3)], fails)
    write_script(found, tmp_path / "small.py", "faulty_backends:wrong", "here", fails)
    done = python("small.py", cwd=tmp_path)
    assert "off by" in done.stderr, done.stderr


def test_constants_of_a_graph_become_inputs():
    root = torch.nn.Module()
    root.weight = torch.arange(3.0)
    graph = fx.Graph()
    product = graph.call_function(torch.mul, (graph.placeholder("x"), graph.get_attr("weight")))
    graph.output((graph.call_function(torch.tanh, (product,)),))
    found = minify(fx.GraphModule(root, graph), [torch.ones(3)], failure_of(refuses("mul")))
    assert found.operators == ["mul"]
    assert len(found.inputs) == 2


REGISTERED = """
import torch
import compile_api

@compile_api.register_backend(name="mine")
def refuses_cosines(gm, example_inputs):
    if any("cos" in str(node.target) for node in gm.graph.nodes):
        raise ZeroDivisionError("for this test")
    return gm.forward

def f(x):
    return (x.sin().exp() + torch.cos(x)) * 2

if __name__ == "__main__":
    try:
        compile_api.compile(f, backend="mine", options={"debug": "seen"})(torch.ones(4))
    except RuntimeError:
        print("failed")
"""


def test_a_users_own_backend_is_found_in_the_users_own_program(tmp_path, python):
    (tmp_path / "train.py").write_text(REGISTERED)
    assert "failed" in python("train.py", cwd=tmp_path).stdout
    minifying = ("-m", "compile_api", "minify", "seen/graph_0_f")
    lost = python(*minifying, cwd=tmp_path)
    assert lost.returncode == 2
    assert f"add --import {tmp_path / 'train.py'}" in lost.stderr
    found = python(*minifying, "--import", "train.py", cwd=tmp_path)
    assert "1 of 5 operators are enough (cos)" in found.stdout, found.stderr
    assert "ZeroDivisionError" in python("minimal.py", cwd=tmp_path).stderr
    unknown = python(*minifying, "--backend", "other", cwd=tmp_path)
    assert "there is no backend 'other'" in unknown.stderr
    missing = python(*minifying, "--import", "nowhere.py", cwd=tmp_path)
    assert "there is no program nowhere.py" in missing.stderr


def test_a_backend_of_a_module_beside_the_program_is_found_by_itself(tmp_path, python):
    (tmp_path / "shop.py").write_text(REGISTERED.partition("def f(")[0])
    (tmp_path / "train.py").write_text(
        "import shop\nimport torch, compile_api\ndef f(" + REGISTERED.partition("def f(")[2]
    )
    python("train.py", cwd=tmp_path)
    found = python("-m", "compile_api", "minify", "seen/graph_0_f", cwd=tmp_path)
    assert "1 of 5 operators are enough (cos)" in found.stdout, found.stderr
