"""Compiled graphs on disk: found by all that matters and nothing else, taken up whole, or compiled as if none were."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from compiled import traced
from simulated import program_for_gpu
from torch.fx.experimental.proxy_tensor import make_fx

import inductor
from inductor import pipeline
from inductor.codegen.triton import print_kernel
from inductor.decompose import prepare
from inductor.ir import plain
from inductor.ir.program import Launch
from inductor.options import Options
from inductor.rewrites.redundant import MAY_RAISE
from inductor.schedule.layouts import with_layout
from inductor.stored import artefact
from inductor.stored.keys import NoKey, key_of_graph

TABLE = torch.randn(6, 4)


def normalised(x, w):
    return torch.nn.functional.layer_norm(x @ w, (4,)).relu() + 1, x.sum(0)


def gathered(x, i):
    return x[i].sum(), torch.cumsum(x, 0), x.new_full((2,), float("inf"))


def written(x, y):
    x.mul_(2).add_(y)
    return x.t(), x.sum()


def drawn(x):
    return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)


def held(x):
    return x @ TABLE.t() + TABLE.sum()


def nothing_to_compute(x):
    return x, 3, None


GRAPHS = {
    "a product and a row": (normalised, [torch.randn(5, 4), torch.randn(4, 4)]),
    "positions": (gathered, [torch.randn(7, 3), torch.tensor([1, 5])]),
    "a write to an input, and a view": (written, [torch.randn(3, 4), torch.randn(3, 4)]),
    "random numbers": (drawn, [torch.randn(4, 4)]),
    "a tensor within": (held, [torch.randn(2, 4)]),
    "no kernel": (nothing_to_compute, [torch.randn(2)]),
    "halves": (lambda x: x.softmax(-1).cumsum(0), [torch.randn(8, 16, dtype=torch.bfloat16)]),
    "sorting": (lambda x: torch.sort(x * 2, descending=True), [torch.randn(9)]),
}


@pytest.fixture
def options(tmp_path):
    return {"cache_dir": str(tmp_path / "cache"), "fallback": False, "store_graphs": True}


def no_stage(monkeypatch):
    def run(work):
        raise AssertionError("a stage runs")

    monkeypatch.setattr(pipeline, "STAGES", tuple(replace(stage, run=run) for stage in pipeline.STAGES))


def file_of(options):
    (found,) = (path for path in inductor.cached_files(Options.read(options).cache_folder()) if path.suffix == ".graph")
    return found


def traced_as_it_is(function, inputs):
    """With tensors that hold numbers, as a graph that holds tensors needs."""
    with torch.no_grad():
        gm = make_fx(function, decomposition_table=inductor.decompositions())(*[value.clone() for value in inputs])
    return prepare(gm, inputs)


def results(compiled, inputs):
    torch.manual_seed(0)
    given = [value.clone() for value in inputs]
    return [*compiled(*given), *given]


def agree(one, other):
    torch.testing.assert_close(one, other, rtol=0, atol=0, check_stride=True, equal_nan=True)


@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_taken_up_is_what_was_compiled(name, options, monkeypatch):
    function, inputs = GRAPHS[name]
    first = inductor.compile(traced_as_it_is(function, inputs), inputs, options=options)
    assert (first.report.from_cache, first.report.not_stored) == (False, None)
    again = traced_as_it_is(function, inputs)
    no_stage(monkeypatch)
    second = inductor.compile(again, inputs, options=options)
    loaded = inductor.load(first.key, options=options)
    for taken in (second, loaded):
        assert taken.report.from_cache
        assert taken.key == first.key
        agree(results(taken, inputs), results(first, inputs))
        assert said(taken) == said(first)
        assert taken.program == replace(first.program, name=taken.program.name)
        assert taken.result_bytes == first.result_bytes
        assert taken.source.replace(taken.program.name, "graph") == first.source.replace(first.program.name, "graph")
        assert replace(taken.calling, graph="") == replace(first.calling, graph="")


def said(compiled):
    kernels = [(kernel.name, kernel.source, kernel.path, kernel.operators) for kernel in compiled.kernels]
    report = compiled.report
    return kernels, report.fallbacks, report.library_calls, report.lowered, report.nests, report.bytes, report.failure


_SECOND = """
import sys, torch
sys.path.insert(0, sys.argv[1])
from test_stored import *
function, inputs = GRAPHS["a product and a row"]
inputs = [torch.ones(5, 4), torch.ones(4, 4)]
options = {"cache_dir": sys.argv[2], "fallback": False, "store_graphs": True}
graph = traced(function, *inputs)
if sys.argv[3] == "second":
    no_stage(pytest.MonkeyPatch())
compiled = inductor.compile(graph, inputs, options=options)
agree(list(compiled(*inputs)), list(function(*inputs)))
print(compiled.report.from_cache, compiled.key, inductor.load(compiled.key, options=options).report.from_cache)
"""


def test_a_second_process_runs_no_stage(tmp_path):
    def run(turn):
        command = [sys.executable, "-c", _SECOND, os.path.dirname(__file__), str(tmp_path), turn]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "1" if turn == "first" else "2"}
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout.split()

    first, second = run("first"), run("second")
    assert (first[0], second[0]) == ("False", "True")
    assert first[1:] == second[1:]


def test_sizes_that_vary(options, monkeypatch):
    x = torch.randn(6, 5)
    graph = make_fx(
        lambda x: (x * x.shape[0]).softmax(-1), tracing_mode="symbolic", decomposition_table=inductor.decompositions()
    )(x)
    (value,) = (node.meta["val"] for node in graph.graph.find_nodes(op="placeholder"))
    first = inductor.compile(graph, [value], options=options)
    assert first.report.not_stored is None
    no_stage(monkeypatch)
    second = inductor.compile(graph, [value], options=options)
    y = torch.randn(9, 3)
    agree(second(y), first(y))


def test_messages_name_the_graph_and_inputs_that_were_given(options):
    x = torch.randn(3)
    first = inductor.compile(make_fx(lambda left: left + 1)(x), [x], options=options)
    second = inductor.compile(make_fx(lambda right: right + 1)(x), [x], options=options)
    assert second.report.from_cache
    with pytest.raises(inductor.BadInput, match="input right_1 is"):
        second(torch.randn(4))
    with pytest.raises(inductor.BadCall, match=rf"^{second.calling.graph}.call takes"):
        second.call([])
    assert first.calling.graph != second.calling.graph


def test_a_tensor_within_the_graph_is_the_graphs_own(options):
    gm, x = traced_as_it_is(held, [torch.randn(2, 4)]), torch.ones(2, 4)
    inductor.compile(gm, [x], options=options)
    second = inductor.compile(gm, [x], options=options)
    (node,) = list(gm.graph.find_nodes(op="get_attr"))[:1]
    getattr(gm, node.target).add_(1)
    try:
        torch.testing.assert_close(second(x)[0], held(x))
    finally:
        getattr(gm, node.target).sub_(1)


# -- keys -------------------------------------------------------------------------------------------------------------


def key(function=None, inputs=None, change=None, **options):
    function, inputs = function or normalised, inputs or [torch.ones(5, 4), torch.ones(4, 4)]
    gm = traced(function, *inputs)
    if change is not None:
        change(gm.graph)
    return key_of_graph(gm, inputs, Options.read(options)).text


def first_of(graph, word):
    return next(node for node in graph.nodes if word in str(node.target))


def with_meta(name, value):
    return lambda graph: first_of(graph, "relu").meta.update({name: value})


def with_val(change):
    def changed(graph):
        node = first_of(graph, "relu")
        node.meta["val"] = change(node.meta["val"])

    return changed


def ones(*sizes, **more):
    return torch.ones(*sizes, **more)


ONE = [ones(5, 4)]
CHANGES = {
    "another operator": {"function": lambda x, w: normalised(x, w + 0)},
    "another overload": {"function": lambda x: x + 1, "inputs": ONE},
    "a tensor for a number": {"function": lambda x: x + x, "inputs": ONE},
    "another number": {"function": lambda x: x + 2, "inputs": ONE},
    "a float": {"function": lambda x: x + 1.0, "inputs": ONE},
    "a truth": {"function": lambda x: x + True, "inputs": ONE},
    "a negative zero": {"function": lambda x: x * -0.0, "inputs": ONE},
    "a zero": {"function": lambda x: x * 0.0, "inputs": ONE},
    "not a number": {"function": lambda x: x * float("nan"), "inputs": ONE},
    "operands in turn": {"function": lambda x: 1 - x, "inputs": ONE},
    "an alpha": {"function": lambda x: torch.add(x, x, alpha=2), "inputs": ONE},
    "another axis": {"function": lambda x: x.sum(0), "inputs": ONE},
    "both axes": {"function": lambda x: x.sum((0, 1)), "inputs": ONE},
    "axes kept": {"function": lambda x: x.sum(0, keepdim=True), "inputs": ONE},
    "a dtype": {"function": lambda x: x.sum(0, dtype=torch.float64), "inputs": ONE},
    "two results": {"function": lambda x: (x + 1, x), "inputs": ONE},
    "results in turn": {"function": lambda x: (x, x + 1), "inputs": ONE},
    "a result left out": {"function": lambda x: (x + 1, None), "inputs": ONE},
    "an input's dtype": {"function": lambda x: x + 1, "inputs": [ones(5, 4, dtype=torch.float64)]},
    "an input's size": {"function": lambda x: x + 1, "inputs": [ones(5, 3)]},
    "an input's axes": {"function": lambda x: x + 1, "inputs": [ones(20)]},
    "an input's strides": {"function": lambda x: x + 1, "inputs": [ones(4, 5).t()]},
    "an input's place": {"function": lambda x: x + 1, "inputs": [ones(6, 4)[1:]]},
    "an input that requires grad": {"function": lambda x: x + 1, "inputs": [ones(5, 4, requires_grad=True)]},
    "a parameter": {"function": lambda x: x + 1, "inputs": [torch.nn.Parameter(ones(5, 4))]},
    "one more input": {"function": lambda x, y: x + 1, "inputs": [ones(5, 4), ones(1)]},
    "inputs that share memory": {"function": lambda x, y: x + 1, "inputs": [ONE[0], ONE[0][:, :1]]},
    "a tensor within": {"function": lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0]), "inputs": ONE},
    "other numbers within": {"function": lambda x: x + torch.tensor([1.0, 2.0, 3.0, 5.0]), "inputs": ONE},
    "an operator that may raise": {"change": with_meta(MAY_RAISE, True)},
    "an operator in place": {"change": with_meta("in_place", torch.ops.aten.relu_.default)},
    "a result's dtype": {"change": with_val(lambda val: val.double())},
    "a result's strides": {"change": with_val(lambda val: val.t().contiguous().t())},
    "a result's device": {"change": with_val(lambda val: val.to("meta"))},
    "unchecked inputs": {"check_inputs": False},
    "random numbers in kernels": {"random": "fused"},
    "labels": {"labels": True},
    "narrow vectors": {"vector_bytes": 16},
    "autotuned": {"max_autotune": True},
    "flags": {"cpp_flags": ("-g",)},
    "another compiler": {"compiler": "cat"},
}  # fmt: skip


def test_every_change_that_matters_is_another_key():
    keys = {"as it is": key(), **{name: key(**change) for name, change in CHANGES.items()}}
    assert len(CHANGES) >= 40
    alike = {name: [other for other in keys if keys[other] == keys[name] and other != name] for name in keys}
    assert not {name: found for name, found in alike.items() if found}


STATES = {
    "deterministic": lambda: torch.use_deterministic_algorithms(True),
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "precision": lambda: torch.set_float32_matmul_precision("high"),
    "oneDNN": lambda: torch._C._set_mkldnn_enabled(False),
}


@pytest.mark.parametrize("name", STATES)
def test_state_of_torchs_is_part_of_the_key(name):
    inputs = [torch.ones(5, 4), torch.ones(4, 4)]
    gm, before = traced(normalised, *inputs), key()
    was = torch.get_default_dtype(), torch.get_float32_matmul_precision(), torch.backends.mkldnn.enabled
    STATES[name]()
    try:
        assert key_of_graph(gm, inputs, Options.read(None)).text != before
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_default_dtype(was[0])
        torch.set_float32_matmul_precision(was[1])
        torch._C._set_mkldnn_enabled(was[2])


def renamed(graph):
    for number, node in enumerate(graph.nodes):
        node.name = f"another_{number}"


SAME = {
    "names": renamed,
    "notes of others": with_meta("stack_trace", "line 3"),
}


@pytest.mark.parametrize("name", SAME)
def test_what_does_not_matter_is_not_part_of_the_key(name):
    assert key(change=SAME[name]) == key()


@pytest.mark.parametrize(
    "option", [{"cache_dir": "elsewhere"}, {"cache_bytes": 1 << 20}, {"build_processes": 1}, {"fallback": False}]
)
def test_where_things_are_is_not_part_of_the_key(option):
    assert key(**option) == key()


class Module(torch.nn.Module):
    def forward(self, x):
        return x


def test_what_has_no_key_is_compiled_and_says_so(options):
    x = torch.randn(3)
    gm = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
    with pytest.raises(NoKey):
        key_of_graph(gm, [x], Options.read(options))
    compiled = inductor.compile(gm, [x], options=options)
    assert (compiled.key, compiled.report.from_cache) == (None, False)
    assert "calls the module 0" in compiled.report.not_stored


# -- damage -----------------------------------------------------------------------------------------------------------

FUNCTION, INPUTS = GRAPHS["positions"]


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory):
    options = {"cache_dir": str(tmp_path_factory.mktemp("once") / "cache"), "fallback": False, "store_graphs": True}
    return options["cache_dir"], inductor.compile(traced(FUNCTION, *INPUTS), INPUTS, options=options).key


@pytest.fixture
def key_of_stored(compiled_once, options):
    folder, key = compiled_once
    shutil.copytree(folder, options["cache_dir"])
    return key


def compiled_again(options):
    again = inductor.compile(traced(FUNCTION, *INPUTS), INPUTS, options=options)
    torch.testing.assert_close(list(again(*INPUTS)), list(FUNCTION(*INPUTS)))
    return again.report.from_cache


def test_a_file_with_any_byte_changed_is_none(key_of_stored, options):
    path = file_of(options)
    whole = path.read_bytes()
    for at in range(0, len(whole), 64):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert inductor.load(key_of_stored, options=options) is None
        path.write_bytes(whole[:at])
        assert inductor.load(key_of_stored, options=options) is None
    assert not compiled_again(options)
    assert compiled_again(options)


def forged(options, change):
    """A whole file, of which something is not as it should be."""
    path = file_of(options)
    first, second = path.read_bytes()[:-32].split(b"\n")[:2]
    head = json.loads(first)
    change(head)
    text = json.dumps(head).encode() + b"\n" + second + b"\n"
    inductor.cache.Cache(path.parent.parent, 1 << 30).keep_data(path.name, text)


FOREIGN = {
    "another format": lambda head: head.update(format="inductor graph 0"),
    "another key": lambda head: head.update(key="0" * 40),
    "no wrapper": lambda head: head.update(source="def"),
    "a part is missing": lambda head: head.pop("taken"),
    "a function that is none": lambda head: head["names"].update(x=["function", "os.system"]),
    "an operator that is not known": lambda head: head["nodes"].append(["Ref", {"o": "nobody::knows.it"}]),
    "a library that is not there": lambda head: head["libraries"].append("0" * 40),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_that_says_something_else_is_none(name, key_of_stored, options):
    forged(options, FOREIGN[name])
    assert inductor.load(key_of_stored, options=options) is None
    assert not compiled_again(options)


def test_one_of_other_versions_is_none(key_of_stored, options):
    forged(options, lambda head: head.update(world="another"))
    assert inductor.load(key_of_stored, options=options) is None


def test_a_library_that_is_gone_is_built_again(key_of_stored, options):
    for path in file_of(options).parent.glob("*.so"):
        path.unlink()
    assert inductor.load(key_of_stored, options=options) is None
    assert not compiled_again(options)
    assert compiled_again(options)


def test_where_nothing_can_be_written_the_report_says_why(key_of_stored, options, monkeypatch):
    file_of(options).unlink()

    def full(*_):
        raise inductor.CacheError("no space left")

    monkeypatch.setattr(inductor.cache.Cache, "keep_data", full)
    compiled = inductor.compile(traced(FUNCTION, *INPUTS), INPUTS, options=options)
    assert (compiled.key, compiled.report.not_stored) == (None, "no space left")
    torch.testing.assert_close(list(compiled(*INPUTS)), list(FUNCTION(*INPUTS)))


def test_a_trace_runs_every_stage(key_of_stored, options, tmp_path):
    compiled = inductor.compile(traced(FUNCTION, *INPUTS), INPUTS, options={**options, "trace": str(tmp_path)})
    assert (compiled.report.from_cache, compiled.report.not_stored) == (False, "it is traced")
    assert list(compiled.report.seconds) == [stage.name for stage in pipeline.STAGES]


# -- GPUs -------------------------------------------------------------------------------------------------------------


def test_kernels_for_gpus_come_back_as_they_are_found_and_started():
    program, _ = program_for_gpu(lambda x: x.softmax(-1) + 1, [torch.randn(4, 5)])
    printed = [print_kernel(with_layout(step.kernel)) for step in program.steps if isinstance(step, Launch)]
    writer = plain.Writer()
    held = json.loads(json.dumps([artefact.triton_written(printed, writer), writer.nodes]))
    for old, new in zip(printed, artefact.triton_read(held[0], plain.Reader(held[1])), strict=True):
        assert (old.text, old.content, old.shape, old.checked) == (new.text, new.content, new.shape, new.checked)
        assert (old.kernel.arguments, old.kernel.sizes) == (new.kernel.arguments, new.kernel.sizes)
