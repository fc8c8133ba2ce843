"""``compile-api info``: what a bug report needs to say about this machine, as text or JSON."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys

import torch

import compile_api
import inductor

_PACKAGES = (
    "torch", "triton", "numpy", "compile-api", "compile-api-capture", "compile-api-aotgrad",
    "compile-api-inductor", "compile-api-cudagraphs", "onnxruntime", "openvino", "apache-tvm",
)  # fmt: skip
_VARIABLES = ("COMPILE_API_CACHE", "COMPILE_API_STRICT", "COMPILE_DEBUG", "COMPILE_LOGS", "CXX", "OMP_NUM_THREADS")


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("info", help="versions, devices, backends and settings, for a bug report")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    facts = gathered()
    if chosen.json:
        print(json.dumps(facts, indent=2))
        return 0
    for title, part in facts.items():
        print(f"{title}:")
        for name, value in part.items():
            print(f"  {name:24} {value}")
    return 0


def gathered() -> dict[str, dict[str, str]]:
    machine = inductor.machine()
    system = {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "processors": str(os.cpu_count()),
        "vector registers": f"{machine.vector_bytes * 8} bits",
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "cuda": torch.version.cuda or "none",
        "threads": str(torch.get_num_threads()),
        "cache folder": str(inductor.Options.read(None).cache_folder()),
    }
    return {
        "system": system,
        "packages": {name: _version(name) for name in _PACKAGES},
        "backends": {each.name: each.obstacle or "ready" for each in compile_api.describe_backends()},
        "settings": {name: os.environ.get(name, "not set") for name in _VARIABLES},
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
