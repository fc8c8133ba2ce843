"""Turns a torch graph or callable into forward and backward ATen graphs, ahead of time."""

from aotgrad import decompositions
from aotgrad.api import aot_function, aot_module, compile, function, module
from aotgrad.backward.plan import Later
from aotgrad.differentiable_inputs import differentiable_inputs
from aotgrad.eager import run_eagerly
from aotgrad.errors import AotgradError, BadGraph, InputChanged, Unsupported, WrongArguments
from aotgrad.partitioning.mincut import min_cut_partition
from aotgrad.partitioning.partition import default_partition
from aotgrad.show import show
from aotgrad.stored.calls import Refusal, describe, restore

__version__ = "0.1.0"

__all__ = [
    "AotgradError",
    "BadGraph",
    "InputChanged",
    "Later",
    "Refusal",
    "Unsupported",
    "WrongArguments",
    "aot_function",
    "aot_module",
    "compile",
    "decompositions",
    "default_partition",
    "describe",
    "differentiable_inputs",
    "function",
    "min_cut_partition",
    "module",
    "restore",
    "run_eagerly",
    "show",
]
