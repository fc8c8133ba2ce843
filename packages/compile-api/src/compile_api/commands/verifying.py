"""``compile-api verify``: checks that everything is here that compiling needs, and that it works.

Each check is one line; one that fails says how to get what is missing.  Exit status 0 where the CPU works.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

import compile_api
import inductor
from compile_api.processor import needed_settings
from compile_api.tested import TESTED, complaint, minor, tested_range

KERNELS = 1 << 16
"""The bytes that one or two kernels take in the cache."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; ``good`` is None where something optional is not here."""

    good: bool | None
    what: str
    then: str = ""

    def __str__(self) -> str:
        mark = {True: "ok     ", False: "MISSING", None: "-      "}[self.good]
        return f"{mark}  {self.what}" + (f"\n         {_indented(self.then)}" if self.then else "")


def _indented(text: str) -> str:
    return text.replace("\n", "\n         ")


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("verify", help="check what compiling needs, and compile one function on each device")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    works = True
    for check in CHECKS:
        finding = check()
        print(finding, flush=True)
        # What is optional and not here (None) is no failure.
        works = works and finding.good is not False
    print("everything that is needed is here" if works else "something is missing: see above")
    return 0 if works else 1


def python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    good = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return Finding(good, f"Python {version}", "" if good else "capture reads the frames of CPython 3.11, 3.12 and 3.13")


def headers() -> Finding:
    """Checks for Python's headers, which only Triton's launcher includes, built on machines with a GPU."""
    found = (Path(sysconfig.get_paths()["include"]) / "Python.h").exists()
    if found:
        return Finding(True, "Python's headers")
    # Without a GPU nobody needs them.
    needed = torch.cuda.is_available()
    hint = "install python3-dev (Debian, Ubuntu) or python3-devel (Fedora): kernels on GPUs are launched through them"
    return Finding(False if needed else None, "Python's headers are not here", hint)


def torch_version() -> Finding:
    version = importlib.metadata.version("torch")
    oldest, tested = min(map(minor, TESTED)), f"tested with torch {tested_range()}"
    if minor(version) < oldest:
        return Finding(False, f"torch {version} ({tested})", f"pip install 'torch>={oldest[0]}.{oldest[1]}'")
    return Finding(True, f"torch {version} ({tested})", complaint(version))


def torchs_insides() -> Finding:
    """The names inside torch that the packages use: each one that is lacking turns off one feature."""
    built = torch.backends.cuda.is_built()
    try:
        lacking = [
            f"{package}: {sentence}"
            for package in ("capture", "aotgrad", "inductor", "cudagraphs", "compile_api")
            for sentence in importlib.import_module(f"{package}.torch_versions").INSIDES.lacking(cuda=built).values()
        ]
    except Exception as error:  # noqa: BLE001 - a module of torch's may fail to import
        return Finding(None, f"torch's insides could not be asked: {type(error).__name__}: {error}")
    if not lacking:
        return Finding(True, "torch's insides are all here")
    turned_off = f"torch's insides: {len(lacking)} not here, which turns off a feature each"
    return Finding(None, turned_off, "\n".join(lacking))


def compiler() -> Finding:
    try:
        # Asked as compiling asks, settings of the environment included.
        found = inductor.find_compiler(inductor.Options.read(None).compiler)
    except inductor.BuildError as error:
        hint = "install g++ or clang++ (apt install g++, conda install gxx), or name one in CXX; until then graphs on"
        return Finding(False, f"no C++ compiler: {error}", f"{hint} CPUs run operator by operator")
    return Finding(True, f"C++ compiler {' '.join(found)}")


def processor() -> Finding:
    settings = needed_settings()
    if not settings:
        return Finding(True, "the processor allows the instructions that it lists")
    wanted = " ".join(f"{name}={value}" for name, value in settings.items())
    hint = f"set {wanted} before torch is imported: its own products of bfloat16 matrices end the process here"
    return Finding(False, "the processor lists AMX and the machine forbids it", hint)


def triton() -> Finding:
    if importlib.util.find_spec("triton") is None:
        needed = torch.cuda.is_available()
        return Finding(False if needed else None, "triton is not here", "pip install triton: kernels on GPUs need it")
    return Finding(True, f"triton {importlib.metadata.version('triton')}")


def gpu() -> Finding:
    if not torch.cuda.is_available():
        built = f"torch is built for CUDA {torch.version.cuda}" if torch.version.cuda else "torch is built without CUDA"
        return Finding(None, f"no GPU ({built})")
    name, memory = torch.cuda.get_device_name(), torch.cuda.get_device_properties(0).total_memory / 1e9
    return Finding(True, f"GPU {name}, {memory:.0f} GB")


def cache_folder() -> Finding:
    folder = inductor.Options.read(None).cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Written to, not only opened: a full disk or a quota shows only then.
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            file.write(bytes(KERNELS))
            file.flush()
    except OSError as error:
        hint = "set COMPILE_API_CACHE to a folder that can be written; until then every process builds its kernels anew"
        return Finding(False, f"cache folder {folder}: {error.strerror or error}", hint)
    return Finding(True, f"cache folder {folder}")


def on_device(device: str) -> Finding:
    """Compiles layers that fuse, with a gradient, anew on a device, and compares them with eager."""

    # Layers of torch's: functions of this package are never captured.
    model = torch.nn.Sequential(torch.nn.LayerNorm(128), torch.nn.GELU(), torch.nn.Softmax(-1)).to(device)
    x = torch.randn(64, 128, device=device, requires_grad=True)
    cotangent = torch.randn(64, 128, device=device)
    expected = torch.autograd.grad(model(x), x, cotangent)[0]
    started = time.perf_counter()
    try:
        compiled = compile_api.compile(model, options={"strict": True})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they say is in the report too
            actual = torch.autograd.grad(compiled(x), x, cotangent)[0]
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is what this line says
        return Finding(False, f"compiling on {device}: {type(error).__name__}: {error}", "please report this")
    seconds = time.perf_counter() - started
    report = compile_api.report(compiled)
    if not torch.allclose(actual, expected, rtol=1e-4, atol=1e-5):
        return Finding(False, f"compiling on {device} gave a wrong result", "please report this")
    if not report.kernels:
        return Finding(False, f"on {device} the function ran right but uncompiled", str(report))
    return Finding(True, f"compiled and ran a function on {device}: {len(report.kernels)} kernels, {seconds:.1f} s")


def devices() -> list[Callable[[], Finding]]:
    names = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    return [lambda name=name: on_device(name) for name in names]  # type: ignore[misc]


def backends() -> Finding:
    lines = [f"{each.name}: {each.obstacle}" for each in compile_api.describe_backends() if each.obstacle]
    others = "\n".join(["optional ones that are not:", *lines]) if lines else ""
    return Finding(None, f"backends ready: {', '.join(compile_api.list_backends())}", others)


def all_devices() -> Finding:
    findings = [check() for check in devices()]
    good = all(finding.good for finding in findings)
    return Finding(good, "; ".join(f.what for f in findings), "\n".join(f.then for f in findings if f.then))


CHECKS: tuple[Callable[[], Finding], ...] = (
    python, headers, torch_version, torchs_insides, processor, compiler, triton, gpu, cache_folder, all_devices,
    backends,
)  # fmt: skip
