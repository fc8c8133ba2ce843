"""Compiles the C engine into wheels, and with ``python hatch_build.py --in-place`` into a checkout.

The compiling itself is ``csrc/build.py``, which needs no packages: neither does ``--in-place``.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # building in place on a machine without hatchling
    BuildHookInterface = object


def load_builder() -> ModuleType:
    """``csrc/build.py``, which is in no package."""
    spec = importlib.util.spec_from_file_location("capture_csrc_build", ROOT / "csrc" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class EngineBuildHook(BuildHookInterface):  # type: ignore[misc, valid-type]
    """Adds the compiled engine to a wheel, which is then for one interpreter and platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        builder = load_builder()
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        if version == "editable":
            builder.build_in_place()
            return
        self.folder = tempfile.TemporaryDirectory()
        built = builder.build(Path(self.folder.name) / builder.file_name())
        build_data["force_include"][str(built)] = f"capture/{builder.file_name()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self.folder.cleanup()


if __name__ == "__main__":
    if sys.argv[1:] != ["--in-place"]:
        sys.exit(f"usage: python {sys.argv[0]} --in-place")
    print(load_builder().build_in_place())
