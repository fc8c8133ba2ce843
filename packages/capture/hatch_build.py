"""Puts the compiled C engine into wheels and, for editable installs, beside the sources.

Compiling is ``csrc/build.py``'s subject, which also works alone: ``python csrc/build.py`` builds in a checkout.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def load_builder(root: Path) -> ModuleType:
    """``csrc/build.py``, which is in no package."""
    spec = importlib.util.spec_from_file_location("capture_csrc_build", root / "csrc" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class EngineBuildHook(BuildHookInterface[BuilderConfig]):
    """Adds the engine to a wheel, which is then for one interpreter and one platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        builder = load_builder(Path(self.root))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        if version == "editable":
            builder.build_in_place()
            return
        self.scratch = TemporaryDirectory()
        engine = builder.build(Path(self.scratch.name) / builder.file_name())
        build_data["force_include"][str(engine)] = f"capture/{engine.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self.scratch.cleanup()
