"""``compile-api walkthrough``: one function of a program, followed through every stage."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from compile_api.errors import BadOption
from compile_api.options import nearest
from compile_api.programs import import_program, main_put_back
from compile_api.walkthrough import followed, walkthrough

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_EXAMPLE = """\
import torch


def attention_weights(scores, mask):
    return torch.softmax(scores / 8.0 + mask, dim=-1)
"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("walkthrough", help="one function through every stage, from bytecode to kernels")
    parser.add_argument(
        "function", nargs="?", default="",
        help="program.py:function or module:function; left out, a small example",
    )  # fmt: skip
    parser.add_argument(
        "--shapes", default="", metavar="4,8;8",
        help="the sizes of the tensors it is called with, one after another; left out, 8,16 for each argument",
    )  # fmt: skip
    parser.add_argument("--training", action="store_true", help="the tensors require gradients: backward is shown too")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as folder, main_put_back():
        function = _named(chosen.function or _example(Path(folder)))
        made = [torch.randn(shape, requires_grad=chosen.training) for shape in _shapes(chosen.shapes, function)]
        print(walkthrough(function)(*made))
    return 0


def _example(folder: Path) -> str:
    """A file, as every function that is captured has one to show lines of."""
    path = folder / "example.py"
    path.write_text(_EXAMPLE, encoding="utf-8")
    return f"{path}:attention_weights"


def _named(name: str) -> Any:
    program, colon, attribute = name.rpartition(":")
    if not colon or not program:
        raise BadOption(f"{name!r} names no function: write program.py:function or module:function")
    sys.path.insert(0, os.getcwd())
    import_program(program)
    home = sys.modules["__main__" if program.endswith(".py") else program]
    found = getattr(home, attribute, None)
    if found is None:
        functions = [each for each, value in vars(home).items() if _can_be_followed(value)]
        raise BadOption(f"{program} has no function {attribute!r}{nearest(attribute, functions)}")
    try:
        return followed(found)
    except TypeError as error:
        raise BadOption(f"{name}: {error}") from error


def _can_be_followed(value: object) -> bool:
    try:
        return bool(followed(value))
    except TypeError:
        return False


def _shapes(text: str, function: Any) -> list[tuple[int, ...]]:
    if not text:
        parameters = inspect.signature(function).parameters.values()
        return [(8, 16) for each in parameters if each.kind in _POSITIONAL and each.default is each.empty]
    try:
        return [tuple(int(size) for size in each.split(",") if size.strip()) for each in text.split(";")]
    except ValueError:
        raise BadOption(f"--shapes takes sizes, and a semicolon between tensors, as in 4,8;8: not {text!r}") from None
