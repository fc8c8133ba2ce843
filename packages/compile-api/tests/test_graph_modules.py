"""Modules that are graphs already: of torch.fx, torch.export, quantisation, TorchScript; edited, copied and stored."""

import copy
import functools
import pickle
import warnings

import pytest
import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

import compile_api


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


class WithLeaves(fx.Tracer):
    def is_leaf_module(self, module, name):
        return isinstance(module, Net) or super().is_leaf_module(module, name)


class Subclass(fx.GraphModule):
    """A user's own kind of graph module."""


class FeatureExtractor(fx.GraphModule):
    """Two graphs over the same layers, of which ``train`` and ``eval`` choose one, as feature extractors have."""

    def __init__(self, root, training, inference):
        super().__init__(root, training)
        self.graphs = {True: training, False: inference}

    def train(self, mode=True):
        if mode != self.training:
            self.graph = self.graphs[mode]
        return super().train(mode)


def features(net, names):
    graph = fx.Tracer().trace(net)
    last = graph.output_node()
    wanted = {name: next(node for node in graph.nodes if node.target == name) for name in names}
    graph.erase_node(last)
    graph.output(wanted)
    return graph


def extractor():
    net = Net()
    return FeatureExtractor(net, features(net, ["conv", "last"]), features(net, ["norm", "last"]))


def edited():
    module = fx.symbolic_trace(Net())
    for node in module.graph.nodes:
        node.target = torch.sigmoid if node.target is torch.relu else node.target
    module.recompile()
    return module


@functools.cache
def exported(*, apart=False):
    program = torch.export.export(Net().eval(), (torch.randn(2, 3, 8, 8),))
    return program.run_decompositions() if apart else program


def module_of(program):
    """With a state of its own: modules of one exported program share their parameters."""
    module = program.module()
    for part in module.modules():
        for held in (part._parameters, part._buffers):
            held.update(copy.deepcopy(held))
    return module


def prepared():
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import prepare_fx

    return prepare_fx(Net().eval(), get_default_qconfig_mapping(), (torch.randn(2, 3, 8, 8),))


GRAPHS = {
    "traced": lambda: fx.symbolic_trace(Net()),
    "with leaf modules": lambda: fx.GraphModule(root := nn.Sequential(Net()), WithLeaves().trace(root)),
    "subclass": lambda: Subclass(root := Net(), fx.Tracer().trace(root)),
    "feature extractor": extractor,
    "transformed": lambda: fx.Transformer(fx.symbolic_trace(Net())).transform(),
    "edited": edited,
    "copied": lambda: copy.deepcopy(fx.symbolic_trace(Net())),
    "pickled": lambda: pickle.loads(pickle.dumps(fx.symbolic_trace(Net()))),
    "exported": lambda: module_of(exported()),
    "exported and taken apart": lambda: module_of(exported(apart=True)),
    "prepared for quantisation": prepared,
    "traced by TorchScript": lambda: torch.jit.trace(Net().eval(), torch.randn(2, 3, 8, 8)),
    "scripted": lambda: torch.jit.script(Net()),
}


class Around(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return pytree.tree_map(lambda value: value + 1, self.inner(x * 2))


def made(name, *, whole, training):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says of some of its tracers that they are deprecated
        module = GRAPHS[name]()
        if not name.startswith("exported"):  # those have no other mode
            module.train(training)
    return module if whole else Around(module)


def results(module, x, *, training):
    with torch.set_grad_enabled(training):
        outputs = module(x)
    if training:
        sum(value.square().sum() for value in pytree.tree_leaves(outputs)).backward()
    return outputs, [p.grad for p in module.parameters()], [b.clone() for b in module.buffers()]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "inside"])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_is_compiled_like_any_module(name, whole, training, backend):
    x = torch.randn(2, 3, 8, 8)
    expected = results(made(name, whole=whole, training=training), x, training=training)
    compiled = compile_api.compile(made(name, whole=whole, training=training), backend=backend)
    torch.testing.assert_close(results(compiled, x, training=training), expected, rtol=1e-4, atol=1e-5)
    report = compile_api.report(compiled)
    # What TorchScript runs has no Python; inside of a module it is called between two graphs.
    assert bool(report.captured) != (whole and name in ("scripted", "traced by TorchScript"))
    assert report.captured or report.refused


def test_a_graph_that_changes_with_the_mode_is_compiled_in_each():
    module = extractor()
    compiled = compile_api.compile(module)
    x = torch.randn(2, 3, 8, 8)
    for mode, names in ((True, {"conv", "last"}), (False, {"norm", "last"}), (True, {"conv", "last"})):
        assert compiled.train(mode)(x).keys() == module(x).keys() == names
    assert len(compile_api.report(compiled).captured) == 3


def test_a_graph_edited_after_it_was_compiled_computes_what_it_now_says():
    module = fx.symbolic_trace(lambda x: torch.sin(x))
    compiled = compile_api.compile(module)
    compiled(torch.ones(3))
    next(node for node in module.graph.nodes if node.op == "call_function").target = torch.cos
    compiled.recompile()
    x = torch.randn(3)
    torch.testing.assert_close(compiled(x), torch.cos(x))
    torch.testing.assert_close(module(x), torch.cos(x))
    assert len(compile_api.report(compiled).captured) == 2


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_of_a_compiled_graph_are_compiled_graphs(copied):
    compiled = copied(compile_api.compile(fx.symbolic_trace(Net().eval())))
    compiled(torch.randn(2, 3, 8, 8))
    assert isinstance(compiled, fx.GraphModule)
    assert compile_api.report(compiled).compiled


def test_a_graph_is_compiled_in_place():
    module = fx.symbolic_trace(Net().eval())
    x = torch.randn(2, 3, 8, 8)
    expected = module(x)
    compile_api.compile_in_place(module)
    torch.testing.assert_close(module(x), expected, rtol=1e-4, atol=1e-5)
    assert len(compile_api.report(module).captured) == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_torchscript_runs_is_said():
    compiled = compile_api.compile(torch.jit.script(Net()))
    compiled(torch.randn(2, 3, 8, 8))
    assert "no Python to capture" in compile_api.report(compiled).refused[0].reason


def test_a_module_that_is_a_list_too_is_compiled():
    class Listed(nn.Module, list):
        def forward(self, x):
            return x + len(self)

    graphs = []
    compiled = compile_api.compile(Listed(), backend=lambda gm, _: graphs.append(gm) or gm.forward)
    assert compiled(torch.ones(1)) == 1
    assert len(graphs) == 1  # behind the break at its length
