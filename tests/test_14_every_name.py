"""Every public name and every option is used here, and is in the documentation."""

import dataclasses
import inspect
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import compile_api
from compile_api.commands.main import main
from compile_api.options import SETTABLE

ROOT = Path(__file__).parent.parent
PAGES = " ".join(
    page.read_text() for page in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/compile-api/README.md")]
)
x = torch.linspace(-1, 1, 12).reshape(3, 4)


def function(x):
    return torch.softmax(x.sin() + 1, -1)


def raises(kind, call):
    with pytest.raises(kind):
        call()
    return True


def used_by_names():
    """A use of each name that is true."""
    layer = nn.Linear(4, 4)
    return {
        "MODES": lambda: all(same(mode=mode) for mode in compile_api.MODES),
        "AccuracyWarning": lambda: issubclass(compile_api.AccuracyWarning, UserWarning),
        "Backend": lambda: all(isinstance(each, compile_api.Backend) for each in compile_api.describe_backends()),
        "BackendCannot": lambda: backend_that_cannot(),
        "BackendNotReady": lambda: issubclass(compile_api.BackendNotReady, ImportError),
        "BadOption": lambda: raises(compile_api.BadOption, lambda: compile_api.compile(function, mode="fastest")),
        "CaptureWarning": lambda: issubclass(compile_api.AccuracyWarning, compile_api.CaptureWarning),
        "CompileApiError": lambda: raises(compile_api.CompileApiError, lambda: compile_api.report(len)),
        "CompileOptions": lambda: dataclasses.is_dataclass(compile_api.CompileOptions),
        "Explanation": lambda: isinstance(compile_api.explain(function)(x), compile_api.Explanation),
        "NothingToMinify": lambda: issubclass(compile_api.NothingToMinify, compile_api.CompileApiError),
        "RecompileRefused": lambda: refused(),
        "Report": lambda: isinstance(compile_api.report(run_once()), compile_api.Report),
        "UnknownBackend": lambda: raises(
            compile_api.UnknownBackend, lambda: compile_api.compile(function, backend="none")
        ),
        "Walkthrough": lambda: isinstance(compile_api.walkthrough(function)(x), compile_api.Walkthrough),
        "allow_in_graph": lambda: compile_api.allow_in_graph(function) is function,
        "backend_function": lambda: callable(compile_api.backend_function("eager")),
        "assume_constant_result": lambda: compile_api.assume_constant_result(plain) is plain,
        "load_cache": lambda: raises(compile_api.CompileApiError, lambda: compile_api.load_cache("no bundle")),
        "save_cache": lambda: raises(compile_api.CompileApiError, lambda: compile_api.save_cache("no folder/bundle")),
        "mark_dynamic": lambda: compile_api.mark_dynamic(torch.ones(2), 0) is None,
        "mark_static": lambda: compile_api.mark_static(torch.ones(2)) is None,
        "compile": lambda: same(),
        "compile_in_place": lambda: compile_api.compile_in_place(layer) is None and layer(x).shape == (3, 4),
        "describe_backends": lambda: len(compile_api.describe_backends()) > 10,
        "disable": lambda: torch.equal(compile_api.disable(function)(x), function(x)),
        "disallow_in_graph": lambda: compile_api.disallow_in_graph(other) is other,
        "explain": lambda: compile_api.explain(function, x).graph_count == 1,
        "export": lambda: len(compile_api.export(function, x)) == 2,
        "graph_break": lambda: compile_api.graph_break() is None,
        "install": lambda: compile_api.install() is None and torch.compile.__module__ == "compile_api.dropin",
        "is_compiling": lambda: compile_api.is_compiling() is False,
        "list_backends": lambda: "inductor" in compile_api.list_backends(),
        "optimize": lambda: torch.allclose(compile_api.optimize("eager")(function)(x), function(x)),
        "register_backend": lambda: compile_api.register_backend(plain, name="for_every_name") is plain,
        "report": lambda: len(compile_api.report(run_once()).kernels) == 1,
        "reset": lambda: compile_api.reset() is None,
        "served_reports": lambda: isinstance(compile_api.served_reports(), tuple),
        "set_logs": lambda: compile_api.set_logs("") is None,
        "set_stance": lambda: compile_api.set_stance("default").stance == "default",
        "step_begin": lambda: compile_api.step_begin() is None,
        "uninstall": lambda: compile_api.uninstall() is None and torch.compile.__module__ != "compile_api.dropin",
        "walkthrough": lambda: "sin" in str(compile_api.walkthrough(function)(x)),
    }  # fmt: skip


def other(x):
    return x


def plain(gm, example_inputs):
    return gm.forward


def run_once():
    compiled = compile_api.compile(function)
    compiled(x)
    return compiled


def same(**how):
    torch.testing.assert_close(compile_api.compile(function, **how)(x), function(x))
    return True


def refused():
    compiled = compile_api.compile(function, backend="eager")
    with compile_api.set_stance("fail_on_recompile"):
        return raises(compile_api.RecompileRefused, lambda: compiled(x))


def backend_that_cannot():
    def choosy(gm, example_inputs):
        raise compile_api.BackendCannot("not this one")

    compiled = compile_api.compile(function, backend=choosy)
    torch.testing.assert_close(compiled(x), function(x))
    return compile_api.report(compiled).refused[0].reason == "not this one"


@pytest.mark.parametrize("name", compile_api.__all__)
def test_the_name_works(name):
    assert used_by_names()[name]()


@pytest.mark.parametrize("name", compile_api.__all__)
def test_the_name_has_words_and_a_place_in_the_documentation(name):
    value = getattr(compile_api, name)
    assert name.isupper() or inspect.getdoc(value)
    module = "" if name.isupper() else value.__module__
    documented = re.findall(r"^::: (\S+)", PAGES, re.MULTILINE)
    assert name in PAGES or any(module == page or f"{module}.{name}" == page for page in documented), name


VALUES = {
    "cuda_graphs": [True, False], "max_autotune": [True], "trace": [True, "traces"], "debug": [True, "folder"],
    "check": [True], "labels": [True], "min_cut": [True, False], "strict": [True, False], "recompile_limit": [1, 64],
    "providers": [["CPUExecutionProvider"], ()], "cuda_graph_pool_bytes": [1 << 30], "cuda_graph_recordings": [1],
    "equal_layers": [True, False], "warm_start": [True, False],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in SETTABLE for value in VALUES[name]])
def test_the_option_changes_no_result(name, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    compiled = compile_api.compile(function, options={name: value})
    y = x.clone().requires_grad_()
    compiled(y).square().sum().backward()
    z = x.clone().requires_grad_()
    function(z).square().sum().backward()
    torch.testing.assert_close(y.grad, z.grad)


@pytest.mark.parametrize("how", [{"fullgraph": True}, {"dynamic": True}, {"dynamic": False}, {"disable": True}])
def test_the_arguments_of_compile(how):
    assert same(**how)


@pytest.mark.parametrize("command", ["verify", "info", "cache", "run", "explain", "walkthrough", "minify"])
def test_every_command_helps(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert len(capsys.readouterr().out) > 50
