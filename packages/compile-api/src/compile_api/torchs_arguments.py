"""The arguments, settings and environment variables of torch's own compiler, translated into ours.

Each is honoured, or refused as torch refuses it, or said once to have no meaning here: never taken in silence.  What
torch knows is read from torch as it is installed, as text, so that nothing of its compiler is imported.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from compile_api import logs
from compile_api.errors import BadOption
from compile_api.messages import Messages
from compile_api.options import SETTABLE, Overrides, as_mapping, nearest

SAME_SETTING: Mapping[str, str] = {
    "triton.cudagraphs": "cuda_graphs",
    "max_autotune": "max_autotune",
    "trace.enabled": "trace",
}
"""Options of torch's code generator that mean a setting of ours."""

_OF_THE_CALL = ("guard_filter_fn", "use_aoti")
"""Options that ``torch.compile`` itself takes, whatever the backend."""


def understood_options(options: Overrides, messages: Messages, *, others_ignore: bool = False) -> dict[str, object]:
    """The options that exist here, by our names; what torch does not know either is an error, as it is there, unless
    the backend is one that ignores options (``others_ignore``)."""
    chosen: dict[str, object] = {}
    for asked, value in as_mapping(options).items():
        name = str(asked).replace("-", "_")
        ours = SAME_SETTING.get(name, name)
        if ours in SETTABLE:
            chosen[ours] = value
        # Known to torch: a program that runs there must not fail here for it.
        elif others_ignore or name in torchs_options():
            messages.once(f"torch.compile's option {asked!r} has no counterpart in compile-api and is left out")
        else:
            close = nearest(name, [*SETTABLE, *torchs_options()])
            raise BadOption(
                f"torch.compile was called with an option {asked!r}, which neither torch nor compile-api has{close}; "
                f"options are {', '.join([*SAME_SETTING, *SETTABLE])}"
            )
    return chosen


@functools.cache
def torchs_options() -> frozenset[str]:
    """The names of the options that the installed torch's code generator has."""
    path = Path(torch.__file__).parent / "_inductor" / "config.py"
    try:
        body = ast.parse(path.read_text(encoding="utf-8")).body
    except (OSError, SyntaxError):
        return frozenset(_OF_THE_CALL)
    return frozenset({*_OF_THE_CALL, *_assigned(body, "")})


def _assigned(body: Iterable[ast.stmt], prefix: str) -> Iterable[str]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _assigned(statement.body, f"{prefix}{statement.name}.")
        # Settings may stand under a condition, such as a platform's.
        elif isinstance(statement, ast.If | ast.Try):
            yield from _assigned([*statement.body, *statement.orelse], prefix)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            yield from (prefix + each.id for each in targets if isinstance(each, ast.Name))


@dataclass(frozen=True, slots=True)
class Settings:
    """The decisions of a program or its user that hold for all calls of ``torch.compile``."""

    disable: bool
    recompile_limit: int | None
    dynamic: bool | None
    debug: bool | str


def settings() -> Settings:
    """The present values of ``torch._dynamo.config`` and of torch's environment variables."""
    home = sys.modules.get("torch._dynamo.config")
    limit = getattr(home, "recompile_limit", None)
    folder = os.environ.get("TORCH_COMPILE_DEBUG_DIR", "")
    return Settings(
        bool(getattr(home, "disable", _is_set("TORCH_COMPILE_DISABLE") or _is_set("TORCHDYNAMO_DISABLE"))),
        limit if isinstance(limit, int) else None,
        None if getattr(home, "automatic_dynamic_shapes", True) else False,
        (os.path.join(folder, "torch_compile_debug") if folder else True) if _is_set("TORCH_COMPILE_DEBUG") else False,
    )


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "0") not in ("", "0")


def torchs_logs(names: str, messages: Messages) -> set[str]:
    """The artifacts that ``TORCH_LOGS=names`` asks for, by our names; a ``-`` asks for less of one."""
    wanted: set[str] = set()
    for name in (each.strip() for each in names.split(",")):
        plain = name.lstrip("+")
        if not plain or plain.startswith("-"):
            continue
        if plain == "all" or logs.SYNONYMS.get(plain, plain) in logs.ARTIFACTS:
            wanted.add(plain)
        else:
            messages.once(
                f"TORCH_LOGS={plain} has no counterpart in compile-api, whose logs are {', '.join(logs.ARTIFACTS)}"
            )
    return wanted
