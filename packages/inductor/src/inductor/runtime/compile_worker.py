"""Compiles Triton kernels: for whoever calls ``compiled``, and as a script for whoever writes requests to its input.

Most of Triton's compiler is Python, so threads wait for one another; processes do not.  As a script this file knows
neither torch nor the rest of its package, so that it is there within half a second, and it touches no GPU.  It ends
with its input, and so with the process that holds the other end, however that ends.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import IO, Any

ALIGNMENT = 16
"""Kernels are compiled for memory that starts at a multiple of this, as torch's does; views that do not get a kernel
of their own when they come."""


READY = b"ready\n"


@dataclass(frozen=True, slots=True)
class Request:
    """A kernel of a file, and what to compile it for; its first ``aligned`` parameters are pointers to aligned
    memory."""

    file: str
    name: str
    signature: Mapping[str, str]
    constants: Mapping[str, int]
    aligned: int
    architecture: int
    options: Mapping[str, Any]

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


def import_compiler() -> None:
    """0.3 s, which programs for CPUs and warm starts need not wait for."""
    import triton.compiler  # noqa: F401


def compiled(request: Request) -> Any:
    """Triton's own description of the compiled kernel; no device is needed."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    source = ASTSource(
        fn=getattr(module_of(Path(request.file)), request.name),
        signature=dict(request.signature),
        constexprs=dict(request.constants),
        attrs={(position,): [["tt.divisibility", ALIGNMENT]] for position in range(request.aligned)},
    )
    return triton.compile(source, target=GPUTarget("cuda", request.architecture, 32), options=dict(request.options))


def module_of(file: Path) -> ModuleType:
    """The file as a module: Triton reads the source of what it compiles."""
    name = f"inductor_kernels_{file.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[name] = module
    return sys.modules[name]


# -- as a script ------------------------------------------------------------------------------------------------------


def header_of(description: Any) -> dict[str, Any]:
    """What has to be known of machine code to start it."""
    data = description.metadata
    scratch = bool(data.global_scratch_size or data.profile_scratch_size)
    return {"entry": data.name, "warps": data.num_warps, "shared": data.shared, "scratch": scratch}


def _answer(line: bytes, replies: IO[bytes]) -> None:
    try:
        description = compiled(Request(**json.loads(line)))
        header, code = header_of(description), description.asm["cubin"]
    except Exception as error:  # noqa: BLE001 - Triton raises any kind; the asker compiles again and reports it
        header, code = {"error": str(error)}, b""
    replies.write(json.dumps({**header, "bytes": len(code)}).encode() + b"\n" + code)
    replies.flush()


def _stand_alone() -> None:
    """Generated kernels import ``inductor.runtime.triton_math``; here the packages around it are empty."""
    here = Path(__file__).parent
    for name, folder in (("inductor", here.parent), ("inductor.runtime", here)):
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package


def main() -> None:
    _stand_alone()
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what compilers print is no reply
    import_compiler()
    replies.write(READY)
    replies.flush()
    for line in sys.stdin.buffer:
        _answer(line, replies)


if __name__ == "__main__":
    main()
