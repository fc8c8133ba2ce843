"""Captures the torch operations of Python functions as guarded FX graphs, through CPython's frame-evaluation hook."""

from capture import interface as interface  # first: an engine that does not fit says so here

# isort: split
from capture._engine import Region
from capture._engine import entries as translations_of
from capture.bytecode.instructions import Body as Bytecode
from capture.entry.api import (
    LOG,
    Explanation,
    as_written,
    eager,
    explain,
    export,
    not_one_graph,
    optimize,
    records,
    reset,
    run,
)
from capture.entry.hook import install
from capture.entry.stance import STANCES, set_stance
from capture.entry.steering import (
    allow_in_graph,
    assume_constant_result,
    disable,
    disable_alone,
    disallow_in_graph,
    error_on_graph_break,
    graph_break,
    is_compiling,
    torchs_graph_break,
)
from capture.entry.storing import Store
from capture.errors import (
    BackendError,
    CaptureError,
    CaptureWarning,
    InternalError,
    Location,
    RecompileLimitHit,
    RecompileRefused,
    Unsupported,
    words_of,
)
from capture.evaluator.builtin_rules.notices import remark
from capture.evaluator.foreign_marks import is_left_out
from capture.evaluator.size_marks import mark_dynamic, mark_static
from capture.informing import Waiting as WaitingNotices
from capture.informing import inform
from capture.log import BreakRecord, FallbackRecord, GraphRecord, Log, RecompileRecord, SingleRunRecord, StoreRecord
from capture.operators.dynamic_sizes import define_all as define_operators
from capture.operators.triton_kernels.launches import kernel_name as triton_kernel_name
from capture.options import Options, ProgramSettings
from capture.program_settings import heed
from capture.reasons import Reason
from capture.signals import carried as carry_deliveries
from capture.signals import let_through as let_deliveries_through
from capture.stored.contents import NotStored
from capture.stored.versions import summary_of

__version__ = "0.1.0"
__all__ = [
    "LOG",
    "STANCES",
    "BackendError",
    "BreakRecord",
    "Bytecode",
    "CaptureError",
    "CaptureWarning",
    "Explanation",
    "FallbackRecord",
    "GraphRecord",
    "InternalError",
    "Location",
    "Log",
    "NotStored",
    "Options",
    "ProgramSettings",
    "Reason",
    "RecompileLimitHit",
    "RecompileRecord",
    "RecompileRefused",
    "Region",
    "SingleRunRecord",
    "Store",
    "StoreRecord",
    "Unsupported",
    "WaitingNotices",
    "allow_in_graph",
    "as_written",
    "assume_constant_result",
    "carry_deliveries",
    "define_operators",
    "disable",
    "disable_alone",
    "disallow_in_graph",
    "eager",
    "error_on_graph_break",
    "explain",
    "export",
    "graph_break",
    "heed",
    "inform",
    "is_compiling",
    "is_left_out",
    "let_deliveries_through",
    "mark_dynamic",
    "mark_static",
    "not_one_graph",
    "optimize",
    "records",
    "remark",
    "reset",
    "run",
    "set_stance",
    "summary_of",
    "torchs_graph_break",
    "translations_of",
    "triton_kernel_name",
    "words_of",
]

install()
