"""Compiles unmodified PyTorch programs.

>>> import compile_api
>>> @compile_api.compile
... def step(model, batch): ...
"""

from compile_api.deferred import defer_the_peer

defer_the_peer()  # before the engines import torch's tracing toolbox

from compile_api import wiring as _wiring  # fills the table of backends
from compile_api.backends import Backend, describe_backends, list_backends, register_backend
from compile_api.compile import compile, optimize
from compile_api.errors import BackendNotReady, BadOption, CompileApiError, UnknownBackend
from compile_api.options import MODES, CompileOptions
from compile_api.report import Report, report
from compile_api.reset import reset
from compile_api.walkthrough import Walkthrough, walkthrough

__version__ = "0.1.0"

__all__ = [
    "MODES",
    "Backend",
    "BackendNotReady",
    "BadOption",
    "CompileApiError",
    "CompileOptions",
    "Report",
    "UnknownBackend",
    "Walkthrough",
    "compile",
    "describe_backends",
    "list_backends",
    "optimize",
    "register_backend",
    "report",
    "reset",
    "walkthrough",
]

del _wiring, defer_the_peer
