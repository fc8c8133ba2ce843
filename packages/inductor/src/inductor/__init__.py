"""Compiles an ATen FX graph into fused kernels: C++ on CPUs, Triton on GPUs."""

from inductor.api import compile
from inductor.compiled import CompiledGraph, CompiledKernel, Fallback, Report
from inductor.complaints import complaints_heard
from inductor.counting import Metrics, metrics
from inductor.decompose import decompositions
from inductor.errors import (
    BadCall,
    BadInput,
    BuildError,
    CacheError,
    InductorError,
    InvalidIR,
    NotAGraph,
    UnsupportedGraph,
)
from inductor.exported import CompiledProgram
from inductor.options import Options
from inductor.rewrites.layouts import as_eager_lays, lay_out_images

__version__ = "0.1.0"

__all__ = [
    "BadCall",
    "BadInput",
    "BuildError",
    "CacheError",
    "CompiledGraph",
    "CompiledKernel",
    "CompiledProgram",
    "Fallback",
    "InductorError",
    "InvalidIR",
    "Metrics",
    "NotAGraph",
    "Options",
    "Report",
    "UnsupportedGraph",
    "as_eager_lays",
    "compile",
    "complaints_heard",
    "decompositions",
    "lay_out_images",
    "metrics",
]
