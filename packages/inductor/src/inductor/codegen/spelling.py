"""The names of objects in a printed wrapper, and the Python expressions for them."""

from __future__ import annotations

import torch

from inductor.codegen.called import DIRECT
from inductor.torch_versions import OpOverload


def target_name(target: object) -> str:
    """``aten_mm`` for ``aten.mm.default``; other overloads say so."""
    name = str(target).replace("::", "_").replace(".", "_").removesuffix("_default")
    return name if name.isidentifier() else "operator"


def as_python(value: object) -> str | None:
    """The Python expression for the object; None where there is no short one."""
    for function in DIRECT.values():
        if value is function:
            return f"torch.{function.__name__}"
    if isinstance(value, OpOverload):
        return f"torch.ops.{str(value).replace('::', '.')}"
    if isinstance(value, torch.device):
        return f"torch.{value!r}"
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return str(value)
    return None


def object_name(value: object) -> str:
    """A name for the object, made from its text."""
    name = str(value).removeprefix("torch.").replace(":", "").replace(".", "_")
    return name if name.isidentifier() else "constant"
