"""Compiles an ATen FX graph into fused kernels: C++ on CPUs, Triton on GPUs."""

from inductor.api import compile
from inductor.compiled import CompiledGraph, CompiledKernel, Fallback, Report
from inductor.counting import Metrics, metrics
from inductor.decompose import decompositions
from inductor.errors import BuildError, CacheError, InductorError, InvalidIR, UnsupportedGraph
from inductor.options import Options
from inductor.rewrites.layouts import as_eager_lays, lay_out_images

__version__ = "0.1.0"

__all__ = [
    "BuildError",
    "CacheError",
    "CompiledGraph",
    "CompiledKernel",
    "Fallback",
    "InductorError",
    "InvalidIR",
    "Metrics",
    "Options",
    "Report",
    "UnsupportedGraph",
    "as_eager_lays",
    "compile",
    "decompositions",
    "lay_out_images",
    "metrics",
]
