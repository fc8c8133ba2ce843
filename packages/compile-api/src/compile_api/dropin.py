"""Serves the ``torch.compile`` calls of programs that know nothing of us.

``install`` puts our ``compile`` where such programs look for one: ``torch.compile``, which ``nn.Module.compile`` and
libraries look up when they are called, and the functions of ``torch.compiler`` and ``torch._dynamo`` that go with it.
``uninstall`` puts everything back.  Must not know how anything is compiled.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import os
import sys
from collections.abc import Mapping
from functools import partial
from types import ModuleType
from typing import Any, NoReturn

import torch

from compile_api import logs, torchs_settings
from compile_api.backends import CompilerFn, lookup
from compile_api.compile import compile
from compile_api.errors import BackendNotReady, BadOption, CompileApiError, UnknownBackend
from compile_api.fx_traces import trace_as_written
from compile_api.importing.deferred import deferral_of
from compile_api.options import Overrides
from compile_api.report import Report, ledgers_of, of_ledgers
from compile_api.state import STATE
from compile_api.torchs_arguments import settings, torchs_logs, understood_options
from compile_api.torchs_errors import adopt
from compile_api.torchs_names import replacements
from compile_api.wrapper import OptimizedModule

_TORCHS_GROUP = "torch_dynamo_backends"
_OURS = "compile_api"
_WITH_THE_PEER = "torch._dynamo.comptime"
"""A module that comes when all of the peer does, not when it is deferred."""


_ABSENT = object()


def install() -> None:
    """Puts ours in the place of ``torch.compile``, in the whole process.  A second call changes nothing."""
    with STATE.served.lock:
        if STATE.served.before:
            return
        # ``comptime`` is put in place by ``_put`` itself, once the peer has been imported.
        for module in (name for name in _replacements() if name != _WITH_THE_PEER):
            _put(sys.modules[module])
            deferral = deferral_of(module)
            if deferral is not None and _put not in deferral.then:
                deferral.then.append(_put)  # its own names come when it is loaded
        STATE.served.put_back.append(torchs_settings.follow(STATE.served.messages))
        STATE.served.put_back.append(trace_as_written())
        _follow_torchs_logs()


def uninstall() -> None:
    """Gives ``torch.compile`` back to torch.  What was compiled in between stays as it is."""
    with STATE.served.lock:
        for (module, name), original in STATE.served.before.items():
            namespace = vars(sys.modules[module])
            if original is _ABSENT:
                namespace.pop(name, None)
            else:
                namespace[name] = original
        for deferral in map(deferral_of, _replacements()):
            if deferral is not None and _put in deferral.then:
                deferral.then.remove(_put)
        while STATE.served.put_back:
            STATE.served.put_back.pop()()
        STATE.served.before.clear()
        STATE.served.ledgers.clear()
        STATE.served.messages.said.clear()  # the functions in torch's place keep it
        STATE.served.backend, STATE.served.switched_off = None, False


def _put(module: ModuleType) -> None:
    """Ours in place of what ``module`` has; a module that waits to be loaded gets them in advance."""
    namespace, waits = vars(module), deferral_of(module.__name__)
    for name, replacement in _replacements()[module.__name__].items():
        if name in namespace or (waits is not None and waits.waiting):
            STATE.served.before[module.__name__, name] = namespace.get(name, _ABSENT)
            namespace[name] = replacement
    if module.__name__ == "torch._dynamo":
        STATE.served.put_back.append(adopt())
        if _WITH_THE_PEER in sys.modules:
            _put(sys.modules[_WITH_THE_PEER])


def _replacements() -> Mapping[str, Mapping[str, Any]]:
    if not STATE.served.replacements:
        STATE.served.replacements = _made_replacements()
    return STATE.served.replacements


def _made_replacements() -> Mapping[str, Mapping[str, Any]]:
    table = {module: dict(names) for module, names in replacements(STATE.served.messages, serve).items()}
    table["torch.compiler"].update(set_default_backend=_set_default, get_default_backend=_default)
    table["torch._logging"] = {"set_logs": _set_logs}
    return table


def served_reports() -> tuple[Report, ...]:
    """The reports of everything that ``torch.compile`` was called with since ``install``."""
    return tuple(map(of_ledgers, STATE.served.ledgers))


def was_switched_off() -> bool:
    """True if a call of ``torch.compile`` since ``install`` was to do nothing."""
    return STATE.served.switched_off


def _follow_torchs_logs() -> None:
    wanted = torchs_logs(os.environ.get("TORCH_LOGS", ""), STATE.served.messages)
    if wanted:
        logs.set_logs(wanted, os.environ.get("COMPILE_LOGS", ""))
        if path := os.environ.get("TORCH_LOGS_OUT"):
            logs.write_to_file(path)


def _set_logs(**switches: object) -> None:
    """``torch._logging.set_logs``: torch's own logs, and ours of the same names."""
    STATE.served.before["torch._logging", "set_logs"](**switches)
    names = ",".join(name for name, value in switches.items() if value and name != "modules")
    logs.set_logs(torchs_logs(names, STATE.served.messages))


def _set_default(backend: str | CompilerFn | None) -> None:
    if backend is not None:
        lookup(backend)
    STATE.served.backend = backend


def _default() -> str | CompilerFn:
    return "inductor" if STATE.served.backend is None else STATE.served.backend


def serve(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | CompilerFn | None = None,
    mode: str | None = None,
    options: Overrides = None,
    disable: bool = False,
    **more: Any,
) -> Any:
    """The function that stands for ``torch.compile``: ours, with torch's arguments and torch's errors."""
    asked: dict[str, Any] = {"fullgraph": fullgraph, "dynamic": dynamic, "mode": mode, "options": options}
    if model is None:
        return partial(_of_function, backend=backend, disable=disable, **asked, **more)
    if mode is not None and options is not None:
        raise BadOption("torch.compile takes either a mode or options, not both")
    asked.update(_further(more))
    general = settings()
    # Settings that are sets and lists change without a call that could be watched: this is when they matter.
    torchs_settings.report_changes_in_place(STATE.served.messages)
    how = _how(_default() if backend is None else backend, asked)
    if disable or general.disable:
        STATE.served.switched_off = True
        return model
    how["dynamic"] = general.dynamic if dynamic is None else dynamic
    compiled: Any = _wrapped(model, how) if isinstance(model, torch.nn.Module) else compile(model, **how)
    if not isinstance(compiled, type):
        vars(compiled)["aot_compile"] = _aot_compile
    STATE.served.ledgers.append(ledgers_of(compiled))  # and not what was compiled, which may end before the program
    return compiled


serve.__name__ = serve.__qualname__ = "compile"  # what Python's own errors call it


def _aot_compile(*examples: object, **more: object) -> NoReturn:
    """Stands for the ``aot_compile`` of what ``torch.compile`` returned, and refuses."""
    raise CompileApiError(
        "compile-api makes no file of a compiled function (aot_compile): what it compiles is kept on disk, and the "
        "next process that calls the function finds it there; compile_api.export(f)(*args) gives the graph"
    )


def _of_function(model: Any, **how: Any) -> Any:
    if model is None:
        raise BadOption("torch.compile(...) is a decorator here: it takes a function or a module, not None")
    return serve(model, **how)


def _wrapped(model: torch.nn.Module, how: Mapping[str, Any]) -> OptimizedModule:
    compiled: Any = compile(model, **how)
    return OptimizedModule(model, compiled._compiled_call, partial(_again, how=how))


def _again(model: Any, *, how: Mapping[str, Any]) -> Any:
    """Another module or function, compiled as one before it: copies, and what was pickled."""
    return _wrapped(model, how) if isinstance(model, torch.nn.Module) else compile(model, **how)


def _further(more: Mapping[str, object]) -> Mapping[str, Any]:
    """Arguments that newer versions of ``torch.compile`` have."""
    known = inspect.signature(STATE.served.before.get(("torch", "compile"), serve)).parameters
    for name in more:
        if name not in known:
            raise TypeError(f"torch.compile() got an unexpected keyword argument {name!r}")
    # Each call has versions of its own here, so they are isolated whether that is asked for or not.
    for name in (name for name, value in more.items() if value is not None and name not in _HONOURED):
        STATE.served.messages.once(f"torch.compile's argument {name!r} has no meaning for compile-api and is left out")
    return {"recompile_limit": more.get("recompile_limit")}


_HONOURED = ("recompile_limit", "isolate_recompiles")


def _how(backend: str | CompilerFn, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of our ``compile`` that ask for the same."""
    general, limit = settings(), asked["recompile_limit"]
    ours: dict[str, object] = {}
    if isinstance(backend, str) and (nearest := _NEAREST.get(backend)) is not None:
        STATE.served.messages.once(
            f"backend {backend!r} looks into torch's compiler; compile-api takes {nearest!r} for it"
        )
        backend = nearest
    function = _function_behind(backend)
    mode, options = asked["mode"], asked["options"]
    if mode in _MODES:
        STATE.served.messages.once(
            f"the mode {mode!r} has no meaning for compile-api, which takes {_MODES[mode]!r} for it"
        )
        mode = _MODES[mode]
    backend = backend if callable(backend) else _ALIASES.get(backend, backend)
    if function is not None:  # as torch does: what its author documented goes to it
        for_it = {name: value for name, value in (("mode", mode), ("options", options)) if value}
        if for_it.get("mode") == "default":
            del for_it["mode"]
        backend, mode = (partial(function, **for_it) if for_it else function), None
    else:
        # torch's backends that do not generate code take any options and look at none.
        ours = understood_options(options, STATE.served.messages, others_ignore=backend != "inductor")
        ours = {**torchs_settings.generator_settings(), **ours}
    if limit is not None or general.recompile_limit is not None:
        ours.setdefault("recompile_limit", general.recompile_limit if limit is None else limit)
    if general.debug:
        ours.setdefault("debug", general.debug)
    return {"fullgraph": asked["fullgraph"], "backend": backend, "mode": mode, "options": ours}


def _function_behind(backend: str | CompilerFn) -> CompilerFn | None:
    """The backend if it is a plain function, by itself, registered, or offered to torch by another distribution."""
    if callable(backend):
        return backend
    try:
        return lookup(_ALIASES.get(backend, backend)).function
    except BackendNotReady:
        raise
    except UnknownBackend:
        points = importlib.metadata.entry_points(group=_TORCHS_GROUP)
        for point in (point for point in points if point.name == backend):
            loaded: CompilerFn = point.load()
            return loaded
        raise


_ALIASES = {_OURS: "inductor"}
_NEAREST = {
    **dict.fromkeys(("pre_dispatch_eager", "eager_noexcept", "eager_debug"), "eager"),
    **dict.fromkeys(("aot_eager_default_partitioner", "aot_eager_decomp_partition"), "aot_eager"),
    **dict.fromkeys(("aot_eager_decomp_partition_with_mode", "aot_eager_decomp_partition_crossref"), "aot_eager"),
    **dict.fromkeys(("ts", "aot_ts"), "inductor"),
}
"""Backends of torch's for who works on it, and what computes the same here."""
_MODES = {"lite": "default"}
