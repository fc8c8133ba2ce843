"""``install`` puts us where programs look for ``torch.compile``; ``uninstall`` takes us away."""

import gc
import logging
import warnings
import weakref

import pytest
import torch
from torch import nn

import compile_api


@pytest.fixture(autouse=True)
def installed():
    before = torch.compile, torch.compiler.compile, torch.compiler.disable, torch.compiler.set_stance
    compile_api.install()
    yield
    compile_api.uninstall()
    assert (torch.compile, torch.compiler.compile, torch.compiler.disable, torch.compiler.set_stance) == before


def test_torch_compile_is_ours():
    @torch.compile(fullgraph=True)
    def f(x):
        return torch.sin(x) + 1

    torch.testing.assert_close(f(torch.ones(3)), torch.ones(3).sin() + 1)
    assert len(compile_api.served_reports()) == 1
    assert len(compile_api.served_reports()[0].kernels) == 1


def test_modules_compile_in_place_through_us():
    module = nn.Linear(3, 3)
    module.compile(backend="aot_eager")
    module(torch.ones(1, 3))
    assert compile_api.report(module).captured[0].backend == "aot_eager"


def test_twice_is_once():
    compile_api.install()
    compile_api.uninstall()
    assert torch.compile.__module__ != "compile_api.dropin"


def test_torch_compilers_markers_are_served():
    @torch.compiler.disable
    def outside(x):
        return x * 2

    f = torch.compile(lambda x: outside(x + 1), backend="eager")
    assert torch.equal(f(torch.ones(1)), torch.full((1,), 4.0))
    assert len(compile_api.served_reports()[0].breaks) == 1
    with torch.compiler.set_stance("force_eager"):
        f(torch.ones(1))
    torch.compiler.cudagraph_mark_step_begin()
    torch.compiler.reset()
    assert "inductor" in torch.compiler.list_backends()


def test_what_only_torch_has_is_said_and_left_out():
    with pytest.warns(UserWarning, match="'shape_padding' has no counterpart"):
        f = torch.compile(lambda x: x + 1, backend="eager", options={"shape_padding": True, "triton.cudagraphs": False})
    assert f(torch.ones(1)) == 2


@pytest.mark.parametrize("model", [torch.sin, lambda x: x + 1, torch.nn.Linear(2, 2)])
def test_a_file_of_a_compiled_function_is_refused_in_a_sentence(model):
    with pytest.raises(compile_api.CompileApiError, match="kept on disk"):
        torch.compile(model, fullgraph=True).aot_compile(((torch.ones(2),), {}))


def test_a_class_is_served():
    @torch.compile(backend="eager", fullgraph=True)
    class Doubled(torch.nn.Module):
        def forward(self, x):
            return x * 2

    assert Doubled()(torch.ones(1)) == 2


def test_modes_are_ours_too():
    f = torch.compile(lambda x: x + 1, mode="max-autotune-no-cudagraphs", fullgraph=True)
    assert f(torch.ones(1)) == 2
    with pytest.raises(compile_api.CompileApiError, match="modes are default"):
        torch.compile(lambda x: x, mode="fastest")


def plain(x):
    return x + 1


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"mode": "fastest"}, "modes are default, reduce-overhead"),
        ({"mode": "max-autotun"}, "did you mean 'max-autotune'"),
        ({"mode": "default", "options": {}}, "either a mode or options"),
        ({"options": {"epilogue_fusoin": True}}, "did you mean 'epilogue_fusion'"),
        ({"options": {"triton.cudagraph": True}}, "did you mean 'triton.cudagraphs'"),
        ({"options": {"triton.cudagraphs": "yes"}}, "True or False"),
        ({"backend": "inducter"}, "did you mean 'inductor'"),
    ],
)
def test_what_torch_refuses_is_refused_with_what_exists(asked, said):
    with pytest.raises(RuntimeError, match=said):
        torch.compile(plain, **asked)


def test_an_argument_that_torch_does_not_have_is_an_error_as_everywhere():
    with pytest.raises(TypeError, match="unexpected keyword argument 'bakend'"):
        torch.compile(plain, bakend="inductor")
    with pytest.raises(RuntimeError, match="not None"):
        torch.compile(fullgraph=True)(None)


def test_what_has_no_meaning_here_is_said_once():
    with pytest.warns(UserWarning, match="'shape_padding' has no counterpart") as said:
        torch.compile(plain, backend="eager", options={"shape_padding": True})
    assert [each.filename for each in said] == [__file__]
    torch.compile(plain, backend="eager", options={"shape_padding": True})


def test_every_option_of_torchs_generator_is_known_without_importing_it():
    from compile_api.torchs_arguments import torchs_options

    assert {
        "triton.cudagraphs",
        "epilogue_fusion",
        "trace.enabled",
        "cpp.threads",
        "guard_filter_fn",
    } <= torchs_options()


def test_a_function_as_backend_gets_its_options_and_mode():
    seen = []

    def mine(gm, inputs, **how):
        seen.append(how)
        return gm.forward

    torch.compile(plain, backend=mine, options={"level": 3})(torch.ones(1))
    torch._dynamo.register_backend(mine, name="mine")
    torch.compile(plain, backend="mine", mode="gently")(torch.ones(1))
    assert seen == [{"options": {"level": 3}}, {"mode": "gently"}]


def test_ours_by_torchs_name():
    assert torch.compile(plain, backend="compile_api", fullgraph=True)(torch.ones(1)) == 2


@pytest.mark.skipif(
    not hasattr(torch.compiler, "set_default_backend"), reason="this release of torch has no default backend to set"
)
def test_the_default_backend():
    seen = []
    torch.compiler.set_default_backend(lambda gm, inputs: seen.append(1) or gm.forward)
    torch.compile(plain)(torch.ones(1))
    assert seen == [1]
    torch.compiler.set_default_backend(None)
    assert torch.compiler.get_default_backend() == "inductor"


def test_switched_off_by_torchs_settings():
    import torch._dynamo.config

    with torch._dynamo.config.patch(disable=True):
        assert torch.compile(plain) is plain
    with torch._dynamo.config.patch(recompile_limit=1):
        f = torch.compile(lambda x, n: x * n, backend="eager", dynamic=False)
        f(torch.ones(1), 2)
        with pytest.warns(match="1 version"):
            f(torch.ones(1), 3)


def test_torchs_debug_variable_leaves_our_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_COMPILE_DEBUG", "1")
    monkeypatch.setenv("TORCH_COMPILE_DEBUG_DIR", str(tmp_path))
    torch.compile(lambda x: x * 3)(torch.ones(2))
    assert (tmp_path / "torch_compile_debug" / "index.html").is_file()


def test_torchs_logs_are_ours_too(monkeypatch):
    from compile_api import logs

    compile_api.uninstall()
    monkeypatch.setenv("TORCH_LOGS", "+graph_breaks,recompiles,-aot,autograd")
    with pytest.warns(UserWarning, match="TORCH_LOGS=autograd has no counterpart"):
        compile_api.install()
    assert [name for name in logs.ARTIFACTS if logs._logger(name).level] == ["breaks", "recompiles"]
    torch._logging.set_logs(output_code=True)
    assert [name for name in logs.ARTIFACTS if logs._logger(name).level] == ["kernels"]
    torch._logging.set_logs()
    assert not logs.any_wanted()


@pytest.fixture
def logs_to(monkeypatch):
    """Installs us in a program whose logs of breaks were asked for in a file."""
    logger = logging.getLogger("compile_api")
    monkeypatch.setattr(logger, "handlers", [])

    def install(path):
        compile_api.uninstall()
        monkeypatch.setenv("TORCH_LOGS", "graph_breaks")
        monkeypatch.setenv("TORCH_LOGS_OUT", str(path))
        compile_api.install()

    yield install
    compile_api.set_logs()
    for handler in logger.handlers:
        handler.close()


def test_torchs_logs_go_to_the_file_that_is_named(logs_to, tmp_path):
    logs_to(tmp_path / "logs")
    torch.compile(breaking, backend="eager")(torch.ones(3))
    assert "graph break at" in (tmp_path / "logs").read_text()


def test_a_file_that_cannot_be_written_is_named_once(logs_to, tmp_path):
    with pytest.warns(UserWarning, match=r"logs are not written to .*: No such file or directory"):
        logs_to(tmp_path / "no" / "logs")


def breaking(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


def test_torchs_compiler_answers_with_ours():
    said = torch._dynamo.explain(breaking)(torch.ones(2))
    assert (said.graph_count, said.graph_break_count, said.op_count) == (2, 1, 2)
    assert said.out_guards
    assert "capture" in said.compile_times
    assert "inductor" in torch._dynamo.list_backends()
    gm, _ = torch._dynamo.export(plain, torch.ones(2))
    assert torch.equal(gm(torch.ones(2)), plain(torch.ones(2)))
    torch._dynamo.reset()
    f = torch._dynamo.optimize("eager")(plain)
    assert torch.equal(torch._dynamo.run(f)(torch.ones(1)), torch.full((1,), 2.0))
    assert torch.equal(torch._dynamo.run()(f)(torch.ones(1)), torch.full((1,), 2.0))
    assert isinstance(torch._dynamo.lookup_backend("eager")(torch.fx.symbolic_trace(plain), [])(1), int)


def test_torchs_optimizers_break_no_graph_of_ours():
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    weight.grad = torch.ones(3)
    assert torch._dynamo.explain(lambda: optimizer.step())().graph_break_count == 0


SAYS_SO = {
    "torch._dynamo.mark_static_address": lambda f: f(torch.ones(1)),
    "torch._dynamo.patch_dynamo_config": lambda f: f(verbose=True).__enter__(),
    "torch.compiler.nested_compile_region": lambda f: f(plain)(1),
    "torch.compiler.substitute_in_graph": lambda f: f(len)(plain)(1),
    "torch.compiler.save_cache_artifacts": lambda f: f(),
    "torch.compiler.load_cache_artifacts": lambda f: f(b""),
}


@pytest.mark.parametrize("name", SAYS_SO)
def test_what_only_torchs_compiler_can_do_says_so_once(name):
    home, _, last = name.rpartition(".")
    function = getattr(torch.compiler if home == "torch.compiler" else torch._dynamo, last, None)
    if function is None:
        pytest.skip(f"this torch has no {name}")
    with pytest.warns(UserWarning, match="has no meaning for compile-api: "):
        SAYS_SO[name](function)


MEAN_NOTHING = {
    "mark_static_address": lambda x: torch._dynamo.mark_static_address(x),
    "patch_dynamo_config": lambda x: torch._dynamo.patch_dynamo_config(verbose=True).__enter__(),
    "dont_skip_tracing": lambda x: torch._dynamo.dont_skip_tracing(plain)(x),
    "nested_compile_region": lambda x: torch.compiler.nested_compile_region(plain)(x),
    "set_enable_guard_collectives": lambda x: torch.compiler.set_enable_guard_collectives(True),
}


@pytest.mark.parametrize("name", MEAN_NOTHING)
def test_what_means_nothing_breaks_no_graph_and_says_so_once(name):
    if name not in dir(torch._dynamo) + dir(torch.compiler):
        pytest.skip(f"this torch has no {name}")

    @torch.compile(fullgraph=True, backend="eager")
    def f(x):
        MEAN_NOTHING[name](x)
        return x + 1

    with pytest.warns(UserWarning, match=f"{name} has no meaning for compile-api: ") as said:
        assert torch.equal(f(torch.ones(2)), torch.full((2,), 2.0))
    assert [each.filename for each in said] == [__file__]
    f(torch.ones(3))


@pytest.mark.parametrize("mark", ["mark_dynamic", "maybe_mark_dynamic", "mark_static"])
def test_marks_break_no_graph(mark):
    @torch.compile(fullgraph=True, backend="eager")
    def f(x):
        getattr(torch._dynamo, mark)(x, 0)
        return x + 1

    assert torch.equal(f(torch.ones(2)), torch.full((2,), 2.0))


def test_breaks_are_errors_where_the_program_says_so():
    if not hasattr(torch._dynamo, "error_on_graph_break"):
        pytest.skip("this torch has no error_on_graph_break")

    @torch.compile(backend="eager")
    def f(x, errors):
        with torch._dynamo.error_on_graph_break(errors):
            torch._dynamo.graph_break()
            return x + 1

    with pytest.raises(torch._dynamo.exc.Unsupported, match="graph_break"):
        f(torch.ones(2), True)
    assert f(torch.ones(2), False).sum() == 4


def test_disabled_functions_are_named_with_the_programs_reason():
    f = torch.compile(lambda x: torch.compiler.disable(plain, reason="because")(x), fullgraph=True, backend="eager")
    with pytest.raises(torch._dynamo.exc.Unsupported, match="`plain` is disabled: because"):
        f(torch.ones(2))


def inner(x):
    return torch.relu(x * 2)


TRACED = {
    "fx": lambda f: torch.fx.symbolic_trace(f),
    "fx, of what calls it": lambda f: torch.fx.symbolic_trace(lambda x: f(x)),
    "jit.trace": lambda f: torch.jit.trace(f, (torch.ones(2),)),
    "jit.script": lambda f: torch.jit.script(f),
}


@pytest.mark.without_graphs("the tracer of what calls it sees each of its operations", cases=["fx, of what calls it"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.jit, which torch is about to give up
@pytest.mark.parametrize("how", TRACED)
def test_tracers_see_a_compiled_function_as_it_was_written(how):
    traced = TRACED[how](torch.compile(inner, backend="eager"))
    assert torch.equal(traced(torch.full((2,), 3.0)), torch.full((2,), 6.0))


def test_what_runs_while_torch_compiles_says_where_to_look_instead(capsys):
    from torch._dynamo.comptime import comptime

    with pytest.warns(UserWarning, match="comptime.print_graph has no meaning for compile-api: `compile_api.explain`"):
        comptime.print_graph()
    with pytest.warns(UserWarning, match="comptime has no meaning for compile-api"):
        comptime(lambda context: context.print_guards(), fallback_fn=lambda: print("as outside"))
    comptime.print("a value")
    assert capsys.readouterr().out == "as outside\na value\n"


def test_a_break_that_is_asked_for_at_compile_time_is_one():
    from torch._dynamo.comptime import comptime

    def broken(x):
        x = x + 1
        comptime.graph_break()
        return x * 2

    (reason,) = torch._dynamo.explain(broken)(torch.ones(2)).break_reasons
    assert [(frame.name, frame.line) for frame in reason.user_stack] == [("broken", "comptime.graph_break()")]


def test_torchs_own_backends_stay_in_its_own_table(monkeypatch):
    from torch._dynamo.backends import registry

    monkeypatch.setattr(registry, "_COMPILER_FNS", {})

    def inductor(graph, inputs):
        raise AssertionError("torch's, which nobody asked for")

    inductor.__module__ = "torch._dynamo.backends.inductor"
    torch._dynamo.register_backend(inductor)
    assert registry._COMPILER_FNS["inductor"] is inductor
    assert torch.equal(torch.compile(plain, backend="inductor")(torch.ones(2)), plain(torch.ones(2)))


@pytest.mark.parametrize("asked", [{"mode": "lite"}, {"backend": "pre_dispatch_eager"}, {"backend": "aot_ts"}])
def test_what_only_looks_into_torchs_compiler_is_taken_for_what_computes_the_same(asked):
    with pytest.warns(UserWarning, match="compile-api"):
        compiled = torch.compile(plain, fullgraph=True, **asked)
    assert torch.equal(compiled(torch.ones(2)), plain(torch.ones(2)))


def test_every_name_of_torch_that_is_replaced_comes_back():
    from sys import modules

    from compile_api import dropin

    def now():
        return {
            (home, name): vars(modules[home]).get(name) for home, names in table if home in modules for name in names
        }

    table = [(home, tuple(names)) for home, names in dropin._replacements().items()]
    during = now()
    compile_api.uninstall()
    before = now()
    compile_api.install()
    assert now().keys() == before.keys()
    assert during != before


def test_numpy_functions_over_tensors():
    import numpy

    doubled = torch.compiler.wrap_numpy(lambda a: numpy.multiply(a, 2))
    compiled = torch.compile(lambda x: doubled(x + 1) * 2, backend="eager")
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 8.0))


def test_libraries_take_eagers_path_where_torchs_compiler_is_served():
    """They ask whether they are being compiled, and torch's own encoder leaves padding as it is then."""
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder, x = torch.nn.TransformerEncoder(layer, 1).eval(), torch.randn(2, 5, 8)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of nested tensors
        expected = encoder(x, src_key_padding_mask=padding)
        compiled = torch.compile(encoder)
        torch.testing.assert_close(compiled(x, src_key_padding_mask=padding), expected)
    assert compile_api.report(compiled).captured


def test_backends_that_ignore_options_ignore_them():
    with pytest.warns(UserWarning, match="'a' has no counterpart"):
        assert torch.compile(plain, backend="eager", options={"a": 1})(torch.ones(1)) == 2
    with pytest.raises(compile_api.BadOption, match="neither torch nor compile-api has"):
        torch.compile(plain, options={"a": 1})


def test_pythons_own_errors_call_it_compile():
    with pytest.raises(TypeError, match=r"^compile\(\) takes from 0 to 1 positional"):
        torch.compile(plain, True)


def test_what_catches_torchs_errors_catches_ours():
    import capture

    with pytest.raises(torch._dynamo.exc.Unsupported, match="graph_break"):
        torch.compile(breaking, fullgraph=True)(torch.ones(2))
    with pytest.raises(torch._dynamo.exc.InvalidBackend, match=r"^there is no backend 'zz'"):
        torch.compile(plain, backend="zz")
    with pytest.raises(torch._dynamo.exc.TorchDynamoException) as raised:
        torch.compile(breaking, fullgraph=True)(torch.ones(2))
    assert raised.type is capture.Unsupported
    compile_api.uninstall()
    assert not issubclass(capture.Unsupported, torch._dynamo.exc.TorchDynamoException)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_models_and_functions_are_freed_while_the_program_goes_on(backend):
    def trial():
        model, kept = nn.Linear(2, 2), torch.ones(2)
        torch.compile(model, backend=backend)(kept)
        torch.compile(lambda x: x * kept, backend=backend)(torch.ones(2))
        return weakref.ref(model), weakref.ref(kept)

    before = len(compile_api.served_reports())
    ended = trial()
    gc.collect()
    assert [each() for each in ended] == [None, None]
    assert [len(report.frames) for report in compile_api.served_reports()[before:]] == [1, 1]
