"""The dependencies of a stored graph beside itself: the versions of everything that had a hand in it, and the parts of
torch's state that stages read.

It must not know what a graph is.
"""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import torch

from inductor import costs
from inductor.cache import key_of
from inductor.errors import BuildError
from inductor.options import Options
from inductor.toolchain import machine, tools

SOURCES = Path(__file__).parent.parent
_READ = (".py", ".h", ".cpp")


def world(options: Options) -> str:
    """A digest of the versions: of Python, torch, Triton and this package, of the compiler and of the processor."""
    try:
        compiler = tools(options).identity
    except BuildError:  # there is none; a graph without kernels needs none
        compiler = ()
    numbers = repr((costs.ANY, costs.CPU, costs.GPU))
    return key_of((*_versions(), machine().features, str(machine().vector_bytes), numbers, *compiler))


@cache
def _versions() -> tuple[str, ...]:
    cuda = str(torch.version.cuda)
    return (
        sys.version,
        platform.machine(),
        torch.__version__,
        str(torch.version.git_version),
        cuda,
        _triton(),
        _sources(),
    )


@cache
def _triton() -> str:
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return "none"


@cache
def _sources() -> str:
    """A digest of this package by its contents: installing it anew changes nothing, and every change of it does."""
    files = sorted(path for path in SOURCES.rglob("*") if path.suffix in _READ)
    return key_of(text for path in files for text in (path.name, path.read_text(encoding="utf-8")))


def surroundings(options: Options) -> str:
    """A digest of everything that a graph loaded by its key relies on beside that key.  Whoever keeps a key keeps this
    with it."""
    return key_of((world(options), *ambient()))


def gpus(numbers: Iterator[int] | set[int]) -> dict[str, str]:
    """The models of the GPUs with these numbers; none where there is no driver."""
    if not torch.cuda.is_available():
        return {}
    return {str(number): torch.cuda.get_device_name(number) for number in sorted(numbers)}


def ambient() -> Iterator[str]:
    """The parts of torch's state that a stage reads, the tracer and torch's decompositions among them."""
    yield str(torch.get_default_dtype())
    yield str(torch.get_default_device())
    yield str((torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()))
    yield str(torch.utils.deterministic.fill_uninitialized_memory)
    yield torch.get_float32_matmul_precision()
    for device in ("cpu", "cuda"):
        yield f"{torch.is_autocast_enabled(device)} {torch.get_autocast_dtype(device)}"
    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    attention = cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled()
    yield str((*attention, cuda.cudnn_sdp_enabled()))
    yield str((torch.backends.mkldnn.enabled, cudnn.enabled, cudnn.benchmark, cudnn.deterministic))
