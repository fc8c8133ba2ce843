"""Check that the C engine was built for these modules, made before any of them asks it for a name."""

from __future__ import annotations

import importlib.util
from types import ModuleType

INTERFACE = 8
"""The number that ``_engine.INTERFACE`` has to be: ``csrc/engine.h`` says when it changes."""

_WHAT_TO_DO = (
    "build it with `python packages/capture/csrc/build.py` in a checkout, or install compile-api-capture again"
)


def require_engine_of(interface: int, engine: ModuleType) -> None:
    found = getattr(engine, "INTERFACE", None)
    if found != interface:
        raise ImportError(
            f"capture's modules and its C engine {engine.__file__} are of different versions "
            f"(they need interface {interface}, it has {found}): {_WHAT_TO_DO}"
        )


if importlib.util.find_spec("capture._engine") is None:
    raise ImportError(f"capture's C engine is missing: {_WHAT_TO_DO}")

from capture import _engine  # noqa: E402 - where it exists, whatever keeps it from being loaded speaks for itself

require_engine_of(INTERFACE, _engine)
