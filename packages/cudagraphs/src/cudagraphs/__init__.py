"""Records a callable as CUDA graphs over one memory pool and replays it safely."""

from .api import Captured, capture, capture_compiled, capture_on, manager_of, poison, report, reset, show, step_begin
from .eligible import check_graph
from .errors import CannotRecord, CudaGraphsError, Refusal, Refused
from .manager import Manager
from .options import Options
from .report import Report

__version__ = "0.1.0"

__all__ = [
    "CannotRecord",
    "Captured",
    "CudaGraphsError",
    "Manager",
    "Options",
    "Refusal",
    "Refused",
    "Report",
    "capture",
    "capture_compiled",
    "capture_on",
    "check_graph",
    "manager_of",
    "poison",
    "report",
    "reset",
    "show",
    "step_begin",
]
