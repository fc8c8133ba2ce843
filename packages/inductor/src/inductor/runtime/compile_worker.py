"""The Triton compiler: called through ``compiled``, or run as a script that takes requests on its input.

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
"""The alignment in bytes that kernels are compiled for, as torch's memory has; views without it get a kernel of their
own when they come."""


READY = b"ready\n"


@dataclass(frozen=True, slots=True)
class Request:
    """A kernel in a file and the target to compile it for; its first ``aligned`` parameters are pointers to aligned
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
    """Imports Triton's compiler, ahead of the first request: programs for CPUs and warm starts need not wait 0.3 s for
    it."""
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
    """The facts about machine code that a launch needs."""
    data = description.metadata
    scratch = bool(data.global_scratch_size or data.profile_scratch_size)
    return {"entry": data.name, "warps": data.num_warps, "shared": data.shared, "scratch": scratch}


def _answer(line: bytes, replies: IO[bytes]) -> None:
    """Compiles one request and writes its header and machine code, or the error."""
    try:
        description = compiled(Request(**json.loads(line)))
        header, code = header_of(description), description.asm["cubin"]
    except Exception as error:  # noqa: BLE001 - Triton raises any kind; the asker compiles again and reports it
        header, code = {"error": str(error)}, b""
    replies.write(json.dumps({**header, "bytes": len(code)}).encode() + b"\n" + code)
    replies.flush()


def _stand_alone() -> None:
    """Puts empty packages in the place of ``inductor``: generated kernels import ``inductor.runtime.triton_math`` and
    nothing else of it."""
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
