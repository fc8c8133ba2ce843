"""Compiles unmodified PyTorch programs.

>>> import compile_api
>>> @compile_api.compile
... def step(model, batch): ...
"""

from compile_api.importing import put_off_imports
from compile_api.own_engines import own_engines
from compile_api.uncollected import uncollected

put_off_imports()  # before the engines import torch's tracing toolbox

with uncollected(), own_engines():
    from capture import CaptureWarning, RecompileRefused
    from compile_api import logs as _logs
    from compile_api import runtimes as _runtimes  # both fill the table of backends
    from compile_api import wiring as _wiring
    from compile_api.accuracy import AccuracyWarning
    from compile_api.backends import Backend, describe_backends, list_backends, register_backend
    from compile_api.compile import backend_function, compile, compile_in_place, optimize
    from compile_api.controls import (
        allow_in_graph,
        assume_constant_result,
        disable,
        disallow_in_graph,
        graph_break,
        is_compiling,
        mark_dynamic,
        mark_static,
        set_stance,
        step_begin,
    )
    from compile_api.dropin import install, served_reports, uninstall
    from compile_api.errors import (
        BackendCannot,
        BackendNotReady,
        BadOption,
        CompileApiError,
        NothingToMinify,
        UnknownBackend,
    )
    from compile_api.explain import Explanation, explain, export
    from compile_api.logs import set_logs
    from compile_api.options import MODES, CompileOptions
    from compile_api.report import Report, report
    from compile_api.reset import reset
    from compile_api.walkthrough import Walkthrough, walkthrough
    from compile_api.warm_start.bundles import load_cache, save_cache

__version__ = "0.1.0"

_logs.from_environment()

__all__ = [
    "MODES",
    "AccuracyWarning",
    "Backend",
    "BackendCannot",
    "BackendNotReady",
    "BadOption",
    "CaptureWarning",
    "CompileApiError",
    "CompileOptions",
    "Explanation",
    "NothingToMinify",
    "RecompileRefused",
    "Report",
    "UnknownBackend",
    "Walkthrough",
    "allow_in_graph",
    "assume_constant_result",
    "backend_function",
    "compile",
    "compile_in_place",
    "describe_backends",
    "disable",
    "disallow_in_graph",
    "explain",
    "export",
    "graph_break",
    "install",
    "is_compiling",
    "list_backends",
    "load_cache",
    "mark_dynamic",
    "mark_static",
    "optimize",
    "register_backend",
    "report",
    "reset",
    "save_cache",
    "served_reports",
    "set_logs",
    "set_stance",
    "step_begin",
    "uninstall",
    "walkthrough",
]

del _logs, _runtimes, _wiring, own_engines, put_off_imports, uncollected
