"""The settings of torch's own compiler in a served program: those that mean something here act; of another one that is
changed the program hears once.

A program changes settings by attribute or ``config.patch``, both of which set attributes of torch's modules, or in
place, where they are sets and lists; that is seen when ``torch.compile`` is called.
"""

from __future__ import annotations

import fnmatch
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import capture
from capture import ProgramSettings
from compile_api.messages import Messages
from compile_api.torch_versions import ConfigModule
from compile_api.torchs_arguments import SAME_SETTING

_DYNAMO, _INDUCTOR, _FUNCTORCH = HOMES = ("torch._dynamo.config", "torch._inductor.config", "torch._functorch.config")

ACT: Mapping[str, frozenset[str]] = {
    _DYNAMO: frozenset(
        {
            "disable",
            "recompile_limit",
            "automatic_dynamic_shapes",
            "error_on_recompile",
            "fail_on_recompile_limit_hit",
            "suppress_errors",
            "reorderable_logging_functions",
        }
    ),
    _INDUCTOR: frozenset(SAME_SETTING),
    _FUNCTORCH: frozenset(),
}
"""The settings that act here as they do there."""

AS_IT_IS: Mapping[tuple[str, str], tuple[object, ...]] = {
    (_DYNAMO, "capture_scalar_outputs"): (True,),
    (_DYNAMO, "capture_dynamic_output_shape_ops"): (True,),
    (_DYNAMO, "optimize_ddp"): (False, "no_optimization"),
    (_DYNAMO, "allow_rnn"): (True,),
    (_DYNAMO, "force_parameter_static_shapes"): (False,),
    (_INDUCTOR, "deterministic"): (True,),  # set by torch.use_deterministic_algorithms, which capture relies on
    (_FUNCTORCH, "donated_buffer"): (False,),
}
"""Values other than torch's defaults that ask for what is done here in any case."""

SILENT: Mapping[str, tuple[str, ...]] = {
    "what torch's compiler prints, logs and measures of itself": (
        "*verbose*", "log_*", "*.log_*", "*log_path*", "*logpath*", "*report*", "*profile*", "*profiler*", "*metrics*",
        "*progress*", "*developer_warnings*", "*issue_3_13_0_warning*", "*record_*", "*visualize_*", "*pareto_dir*",
        "comment_origin", "*provenance*", "*descriptive_names*", "*unique_kernel_names*", "*unique_user_kernel_names*",
        "kernel_name_max_ops",
    ),
    "what helps to find mistakes in torch's compiler": (
        "*debug*", "*repro*", "*replay_record*", "*TESTING_ONLY*", "test_configs.*", "trace.*", "*crosscheck*",
        "*crossref*", "*_lint", "*check_custom_op_aliasing*", "same_two_models_use_fp64", "generate_pycode",
        "save_args", "generate_intermediate_hooks", "*benchmark_harness*", "cprofile",
    ),
    "where and how torch's compiler keeps what it made: caches, worker processes": (
        "*cache*", "*caching*", "compile_threads", "*worker*", "*_pgo", "*precompil*", "*lazy_graph_module*",
        "*file_lock_timeout*", "*store_cubin*", "*async_compile*",
    ),
    "what torch itself no longer looks at, or keeps for itself": (
        "_*", "TYPE_CHECKING", "base_dir", "skip_code_recursive_*", "skipfiles_inline_module_allowlist",
        "accumulated_recompile_limit",
    ),
}  # fmt: skip
"""The settings that may be changed without a word, by reason: no result, and nothing that is said of one, depends on
them."""


def read() -> ProgramSettings:
    """The settings of ``torch._dynamo.config`` that concern capture, as they are now."""
    home = sys.modules.get(_DYNAMO)
    if home is None:
        return ProgramSettings()
    limit = getattr(home, "recompile_limit", None)
    return ProgramSettings(
        disabled=bool(getattr(home, "disable", False)),
        recompile_limit=limit if isinstance(limit, int) else None,
        recompiling_is_an_error=bool(getattr(home, "error_on_recompile", False)),
        limit_is_an_error=bool(getattr(home, "fail_on_recompile_limit_hit", False)),
        said_later=tuple(getattr(home, "reorderable_logging_functions", ())),
        failures_run_eagerly=bool(getattr(home, "suppress_errors", False)),
    )


def generator_settings() -> dict[str, object]:
    """Settings of torch's code generator that were changed and mean an option of ours."""
    home = sys.modules.get(_INDUCTOR)
    entries = _entries(home)
    found = {ours: _value(home, name) for name, ours in SAME_SETTING.items() if name in entries}
    defaults = {ours: entries[name].default for name, ours in SAME_SETTING.items() if name in entries}
    return {ours: value for ours, value in found.items() if value != defaults[ours]}


def follow(messages: Messages) -> Callable[[], None]:
    """Settings act, and changes of others give messages, until the function that is returned is called."""
    capture.heed(read)
    modules: Any = ConfigModule
    if not (isinstance(modules, type) and issubclass(modules, ModuleType)):  # this torch has no such modules
        return lambda: capture.heed(None)
    genuine = modules.__setattr__

    @functools.wraps(genuine)
    def set_and_tell(module: ModuleType, name: str, value: object) -> None:
        genuine(module, name, value)
        if module.__name__ in HOMES and _is_unheeded(module, name, value):
            messages.of_mark(_sentence(module.__name__, name))

    modules.__setattr__ = set_and_tell  # type: ignore[method-assign,assignment]
    _tell(messages, lambda entry: not getattr(entry, "deprecated", False))  # to read those warns

    def back() -> None:
        modules.__setattr__ = genuine  # type: ignore[method-assign]
        capture.heed(None)

    return back


def report_changes_in_place(messages: Messages) -> None:
    """Tells of sets, lists and dicts that differ from torch's defaults: they are changed without anybody being
    asked."""
    _tell(messages, lambda entry: isinstance(entry.default, set | list | dict))


def _tell(messages: Messages, concerned: Callable[[Any], bool]) -> None:
    for home in filter(None, map(sys.modules.get, HOMES)):
        for name in _changed(home, concerned):
            messages.once(_sentence(home.__name__, name))


def _changed(home: ModuleType, concerned: Callable[[Any], bool]) -> Iterator[str]:
    for name, entry in _entries(home).items():
        if not getattr(entry, "hide", False) and concerned(entry) and _is_unheeded(home, name, _value(home, name)):
            yield name


def _is_unheeded(home: ModuleType, name: str, value: object) -> bool:
    entry = _entries(home).get(name)
    # An alias is another setting by its older name, which is looked at by its own.
    if entry is None or entry.alias is not None or _is_same(value, entry.default):
        return False
    if name in ACT[home.__name__] or value in AS_IT_IS.get((home.__name__, name), ()):
        return False
    return not any(fnmatch.fnmatchcase(name, pattern) for patterns in SILENT.values() for pattern in patterns)


def _is_same(value: object, default: object) -> bool:
    try:
        return bool(value == default)
    except Exception:  # noqa: BLE001 - whatever a program put there
        return False


def _entries(home: ModuleType | None) -> Mapping[str, Any]:
    found: Mapping[str, Any] = {} if home is None else vars(home).get("_config", {})
    return found


def _value(home: ModuleType | None, name: str) -> object:
    """Settings within classes have dotted names, and the module itself knows them by these."""
    return getattr(home, name, None)


def _sentence(home: str, name: str) -> str:
    return f"the setting {home}.{name} has no meaning for compile-api and is left out"
