"""Settings of torch's compiler in a served program: they act, or the program hears that they do not."""

import warnings

import pytest
import torch
import torch._dynamo.config as dynamo
import torch._functorch.config as functorch
import torch._inductor.config as inductor

import compile_api
from compile_api import torchs_settings

X = torch.ones(2)


@pytest.fixture(autouse=True)
def installed():
    compile_api.install()
    yield
    compile_api.uninstall()


def scaled(x, by):
    return x * len(by)


def called(*texts):
    compiled = torch.compile(scaled, backend="eager")
    return [compiled(X, text) for text in texts]


def failing(gm, inputs):
    raise ValueError("no")


def test_a_recompilation_is_an_error_where_torchs_setting_says_so():
    with dynamo.patch(error_on_recompile=True), pytest.raises(torch._dynamo.exc.RecompileError, match="captured again"):
        called("a", "ab")
    called("a", "ab")


def test_the_limit_is_an_error_where_torchs_setting_says_so():
    with dynamo.patch(fail_on_recompile_limit_hit=True, recompile_limit=2):
        with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit, match="2 versions exist"):
            called("a", "ab", "abc")


def test_a_limit_that_is_set_after_compiling_holds():
    compiled = torch.compile(scaled, backend="eager")
    with dynamo.patch(cache_size_limit=1), pytest.warns(match="1 versions exist"):
        [compiled(X, text) for text in ("a", "ab")]


def test_failures_are_suppressed_where_torchs_setting_says_so():
    compiled = torch.compile(lambda x: x + 1, backend=failing)
    with dynamo.patch(suppress_errors=True), pytest.warns(match="the function runs uncompiled"):
        assert compiled(X).sum() == 4


def test_functions_that_log_may_be_called_later(capsys):
    def talking(x):
        print("hello")
        return x + 1

    with dynamo.patch(reorderable_logging_functions={print}):
        assert torch.compile(talking, backend="eager", fullgraph=True)(X).sum() == 4
    assert capsys.readouterr().out == "hello\n"


def test_an_option_of_ours_may_be_torchs_setting():
    with inductor.patch({"triton.cudagraphs": True, "max_autotune": True}):
        assert torchs_settings.generator_settings() == {"cuda_graphs": True, "max_autotune": True}
    assert not torchs_settings.generator_settings()


def by_attribute(home, name, value):
    before = getattr(home, name)
    setattr(home, name, value)
    setattr(home, name, before)


def by_patch(home, name, value):
    with home.patch({name: value}):
        pass


def by_decorator(home, name, value):
    home.patch({name: value})(lambda: None)()


LEFT_OUT = [
    (dynamo, "specialize_int", True),
    (inductor, "coordinate_descent_tuning", True),
    (inductor, "triton.multi_kernel", 1),
    (functorch, "activation_memory_budget", 0.5),
]


@pytest.mark.parametrize(("home", "name", "value"), LEFT_OUT)
@pytest.mark.parametrize("change", [by_attribute, by_patch, by_decorator])
def test_a_setting_that_is_left_out_is_told_once(home, name, value, change):
    with pytest.warns(UserWarning, match=rf"setting {home.__name__}.{name} has no meaning for compile-api") as said:
        change(home, name, value)
    assert [each.filename for each in said] == [__file__]
    change(home, name, value)


def test_one_that_is_changed_in_place_is_told_when_something_is_compiled():
    with dynamo.patch(traceable_tensor_subclasses=set()):
        dynamo.traceable_tensor_subclasses.add(torch.nn.Parameter)
        with pytest.warns(UserWarning, match="traceable_tensor_subclasses has no meaning"):
            torch.compile(scaled)


def test_one_that_was_set_before_is_told_at_once():
    compile_api.uninstall()
    with inductor.patch(freezing=True), pytest.warns(UserWarning, match="freezing has no meaning"):
        compile_api.install()


SILENT = [
    (dynamo, "verbose", True),
    (dynamo, "capture_scalar_outputs", True),
    (dynamo, "accumulated_recompile_limit", 4),
    (inductor, "fx_graph_cache", False),
    (inductor, "compile_threads", 1),
    (inductor, "triton.unique_kernel_names", False),
    (inductor, "freezing", False),
]


@pytest.mark.parametrize(("home", "name", "value"), SILENT)
def test_one_that_no_result_depends_on_is_changed_in_silence(home, name, value):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        by_attribute(home, name, value)


def test_every_name_of_the_table_is_one_of_torchs():
    """A name that no torch has any more would hide nothing, and say that it does."""
    homes = {home.__name__: home for home in (dynamo, inductor, functorch)}
    for home, names in torchs_settings.ACT.items():
        assert names <= set(homes[home]._config), home
    assert all(name in homes[home]._config for home, name in torchs_settings.AS_IT_IS)


def test_torch_is_as_it_was_after_uninstalling():
    from torch.utils._config_module import ConfigModule

    compile_api.uninstall()
    assert ConfigModule.__setattr__.__module__ == ConfigModule.__module__
    assert not hasattr(ConfigModule.__setattr__, "__wrapped__")
    assert not hasattr(torch.fx.Tracer.trace, "__wrapped__") or torch.fx.Tracer.trace.__module__.startswith("torch.")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        by_patch(*LEFT_OUT[0])
