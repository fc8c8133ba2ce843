"""What programs say to the compiler, and what a process decides for all of them."""

import pytest
import torch
from torch import nn

import compile_api


@pytest.fixture(autouse=True)
def default_stance():
    yield
    compile_api.set_stance("default")


class Counting:
    """A backend that counts the graphs it is given, and how often they run."""

    def __init__(self):
        self.graphs = self.runs = 0

    def __call__(self, gm, example_inputs):
        self.graphs += 1

        def run(*inputs):
            self.runs += 1
            return gm.forward(*inputs)

        return run


@pytest.fixture
def counting():
    return Counting()


def test_a_disabled_function_ends_the_graph_and_runs_in_python(counting):
    @compile_api.disable
    def outside(x):
        assert not compile_api.is_compiling()
        return x * 2

    f = compile_api.compile(lambda x: outside(x + 1) - 1, backend=counting)
    assert torch.equal(f(torch.ones(2)), torch.full((2,), 3.0))
    assert counting.graphs == 2


def test_disable_takes_options_as_a_decorator(counting):
    @compile_api.disable(recursive=True, reason="for this test")
    def outside(x):
        return x * 2

    assert torch.equal(outside(torch.ones(2)), torch.full((2,), 2.0))
    assert outside.__name__ == "outside"


def test_a_disabled_module_keeps_its_state():
    layer = nn.Linear(2, 2)
    disabled = compile_api.disable(layer)
    assert list(disabled.state_dict()) == ["weight", "bias"]
    assert isinstance(disabled, nn.Linear)
    assert torch.equal(disabled(torch.ones(2)), layer(torch.ones(2)))
    with pytest.raises(TypeError, match="takes a function or a module, not int"):
        compile_api.disable(3)


def test_without_recursion_what_it_calls_is_compiled(counting):
    def inner(x):
        return x * 2

    @compile_api.disable(recursive=False)
    def outside(x):
        assert not compile_api.is_compiling()
        return inner(x) + 1

    f = compile_api.compile(lambda x: outside(x + 1) - 1, backend=counting)
    assert torch.equal(f(torch.ones(2)), torch.full((2,), 4.0))
    assert counting.graphs == 3


FOREIGN = """
import torch
{before}
@torch.compiler.disable{options}
def outside(x):
    assert not torch.compiler.is_compiling()
    return helper(x) * 2

def helper(x):
    return x + 1

import compile_api
graphs = []
f = compile_api.compile(lambda x: outside(x + 1) - 1, backend=lambda gm, _: graphs.append(gm) or gm.forward)
assert f(torch.ones(1)) == 5 and f(torch.ones(1)) == 5
print(len(graphs))
"""


@pytest.mark.parametrize("before", ["", "import compile_api"], ids=["torch's", "deferred"])
@pytest.mark.parametrize(("options", "graphs"), [("", 2), ("()", 2), ("(recursive=False)", 3)])
def test_what_programs_disable_for_torchs_compiler_is_disabled(before, options, graphs, tmp_path, python):
    script = tmp_path / "program.py"
    script.write_text(FOREIGN.format(before=before, options=options))
    done = python(str(script))
    assert done.stdout.strip() == str(graphs), done.stderr


BESIDE = """
import torch
torch.compile(lambda x: x)  # from now on parts of torch's optimizers carry its compiler's marks
import compile_api
weight = torch.nn.Parameter(torch.ones(3))
weight.grad = torch.ones(3)
optimizer = torch.optim.Adam([weight])
compile_api.compile(lambda: optimizer.step(), backend="eager", fullgraph=True)()
assert (weight < 1).all()

for optimizer in (torch.optim.LBFGS, torch.optim.SparseAdam):  # torch marks all of their steps
    words = torch.nn.Embedding(5, 3, sparse=optimizer is torch.optim.SparseAdam)
    tuner = optimizer(words.parameters())

    def loss():
        tuner.zero_grad()
        loss = words(torch.tensor([1, 2])).square().sum()
        loss.backward()
        return loss

    step = compile_api.compile(lambda: tuner.step(loss), backend="eager", options={"strict": True})
    assert step() > step()

inner = compile_api.compile(lambda x: x.cos())  # of a function of ours that one of torch's calls, torch sees nothing
outer = torch.compile(lambda x: inner(x) + 1, backend="eager")
for _ in range(2):
    assert torch.equal(outer(torch.ones(3)), torch.ones(3).cos() + 1)
assert len(compile_api.report(inner).captured) == 1
"""


def test_torchs_compiler_is_used_beside_and_around(tmp_path, python):
    script = tmp_path / "program.py"
    script.write_text(BESIDE)
    done = python(str(script))
    assert done.returncode == 0, done.stderr


def test_is_compiling_is_true_inside_only():
    f = compile_api.compile(lambda x: x + (1 if compile_api.is_compiling() else 2), backend="eager")
    assert f(torch.zeros(1)) == 1
    assert not compile_api.is_compiling()


def test_torchs_own_question_is_answered_alike():
    f = compile_api.compile(lambda x: x + (1 if torch.compiler.is_compiling() else 2), backend="eager")
    assert f(torch.zeros(1)) == 1


def test_graph_break_splits(counting):
    def f(x):
        x = x + 1
        compile_api.graph_break()
        return x * 2

    assert torch.equal(compile_api.compile(f, backend=counting)(torch.ones(1)), torch.full((1,), 4.0))
    assert counting.graphs == 2


def test_an_allowed_function_is_one_node():
    @compile_api.allow_in_graph
    def opaque(x):
        return x * float(len(str(x.shape)))

    targets = []

    def backend(gm, example_inputs):
        targets.extend(node.target for node in gm.graph.nodes if node.op == "call_function")
        return gm.forward

    compile_api.compile(lambda x: opaque(x), backend=backend)(torch.ones(2))
    assert targets == [opaque]


def test_a_disallowed_function_is_left_to_python(counting):
    def special(x):
        return x * 2

    compile_api.disallow_in_graph(special)
    f = compile_api.compile(lambda x: special(x + 1) + 1, backend=counting)
    assert torch.equal(f(torch.ones(1)), torch.full((1,), 5.0))
    assert counting.graphs >= 2  # before and after; the function's own frame may be captured


# -- stances ------------------------------------------------------------------------------------------------------


def test_force_eager_runs_nothing_compiled(counting):
    f = compile_api.compile(lambda x: x + 1, backend=counting)
    compile_api.set_stance("force_eager")
    f(torch.ones(1))
    assert counting.graphs == 0
    compile_api.set_stance("default")
    f(torch.ones(1))
    assert counting.graphs == 1


def test_as_a_context_it_ends_with_the_block(counting):
    f = compile_api.compile(lambda x: x + 1, backend=counting)
    f(torch.ones(1))
    with compile_api.set_stance("eager_on_recompile"):
        f(torch.ones(1, 1))
        f(torch.ones(1))
    assert (counting.graphs, counting.runs) == (1, 2)
    f(torch.ones(1, 1))
    assert counting.graphs == 2


def test_as_a_decorator_it_holds_for_the_function(counting):
    f = compile_api.compile(lambda x: x + 1, backend=counting)

    @compile_api.set_stance("force_eager")
    def evaluate():
        return f(torch.ones(1))

    f(torch.ones(1))
    evaluate()
    f(torch.ones(1))
    assert counting.runs == 2


def test_fail_on_recompile_says_what_and_why():
    f = compile_api.compile(lambda x: x + 1, backend="eager")
    f(torch.ones(1))
    with compile_api.set_stance("fail_on_recompile"):
        f(torch.ones(1))
        with pytest.raises(compile_api.RecompileRefused, match=r"test_controls.py.*float64"):
            f(torch.ones(1, dtype=torch.float64))


def test_a_stance_that_does_not_exist_is_met_with_the_nearest():
    with pytest.raises(compile_api.BadOption, match="did you mean 'force_eager'"):
        compile_api.set_stance("force_eagre")


def test_step_begin_is_harmless_without_a_gpu():
    compile_api.step_begin()


# -- in place -----------------------------------------------------------------------------------------------------


def test_a_module_is_compiled_in_place(counting):
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    compile_api.compile_in_place(module, backend=counting)
    x = torch.randn(3, 2)
    torch.testing.assert_close(module(x), module[1](module[0](x)))
    assert counting.graphs == 1
    assert list(module.state_dict()) == ["0.weight", "0.bias"]
    assert len(compile_api.report(module).captured) == 1
    with pytest.raises(TypeError, match="takes a module, not function"):
        compile_api.compile_in_place(lambda x: x)


RUN_BY_TORCH = """
import torch, compile_api

def square(x):
    return x.square() + 1

before = torch.compile(square, backend="eager")
programs = {
    "compiled before": lambda x: before(x) + before(x),
    "compiled within": lambda x: torch.compile(square, backend="eager")(x) * 2,
    "cond": lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x * 1,)),
    "while_loop": lambda x: torch.while_loop(lambda x: x.sum() < 9, lambda x: (x + 1,), (x * 1,))[0],
}
for name, program in programs.items():
    compiled = compile_api.compile(program, backend="aot_eager")
    for x in (torch.ones(2), -torch.ones(2), torch.ones(2)):
        torch.testing.assert_close(compiled(x), program(x))
    breaks = {record.reason.kind for record in compile_api.report(compiled).breaks}
    assert breaks == {"torch's compiler"}, (name, breaks)
"""


def test_what_torchs_compiler_runs_is_left_to_it(tmp_path, python):
    script = tmp_path / "program.py"
    script.write_text(RUN_BY_TORCH)
    done = python(str(script))
    assert done.returncode == 0, done.stderr
