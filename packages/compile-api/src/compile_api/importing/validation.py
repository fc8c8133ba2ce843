"""The answer to whether torch proves its guards by an SMT solver, which it asks for every set of symbols that it makes.

Only the peer's developers switch that on; yet the module that knows imports the peer whole.
"""

from __future__ import annotations

from collections.abc import Callable

from compile_api.importing.deferred import Deferral, defer
from compile_api.torch_versions import config

NAME = "torch.fx.experimental.validator"


def _is_enabled(real: Deferral) -> Callable[[], bool]:
    def translation_validation_enabled() -> bool:
        if real.waiting and not getattr(config, "translation_validation", False):
            return False
        return bool(vars(real.load())["translation_validation_enabled"]())

    return translation_validation_enabled


def put_off() -> None:
    """Puts off torch's validator of guards: it is off until somebody switches it on."""
    defer(NAME, {"translation_validation_enabled": _is_enabled})
