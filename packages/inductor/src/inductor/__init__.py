"""Compiles an ATen FX graph into fused kernels: C++ on CPUs, Triton on GPUs."""

from inductor.api import compile, load
from inductor.cache import Cache, cached_files, remove_cached_files
from inductor.compiled import CompiledGraph
from inductor.complaints import complaints_heard
from inductor.counting import Metrics
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
from inductor.images_in_training import as_eager_lays, lay_out_images
from inductor.options import Options
from inductor.report import CompiledKernel, Fallback, Report
from inductor.state import STATE as _STATE
from inductor.stored.world import surroundings
from inductor.toolchain import Machine, find_compiler, machine

__version__ = "0.1.0"

metrics = _STATE.metrics

__all__ = [
    "BadCall",
    "BadInput",
    "BuildError",
    "Cache",
    "CacheError",
    "CompiledGraph",
    "CompiledKernel",
    "CompiledProgram",
    "Fallback",
    "InductorError",
    "InvalidIR",
    "Machine",
    "Metrics",
    "NotAGraph",
    "Options",
    "Report",
    "UnsupportedGraph",
    "as_eager_lays",
    "cached_files",
    "compile",
    "complaints_heard",
    "decompositions",
    "find_compiler",
    "lay_out_images",
    "load",
    "machine",
    "metrics",
    "remove_cached_files",
    "surroundings",
]
