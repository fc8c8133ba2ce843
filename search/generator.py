"""Writes a program from a seed: statements drawn from the tables, each tried in eager on what the variables hold there.

Trying is how a statement is known to fit, so the tables need to know nothing of shapes.  What eager refuses is thrown
away, but for a few: how a program ends with an exception is to be the same as well.
"""

from __future__ import annotations

import itertools
import random
import re
import textwrap
import warnings
from types import SimpleNamespace
from typing import Any

import torch

from search.grammar import arguments, blocks, holes, statements
from search.program import CALLS

SUBJECTS = {
    "values": (statements.VALUES, 5),
    "mutation": (statements.MUTATION, 5),
    "autograd": (statements.AUTOGRAD, 4),
    "state": (statements.STATE, 3),
}
TABLES = {name: text.strip().splitlines() for name, (text, _) in SUBJECTS.items()}
CONTEXTS = blocks.CONTEXTS.strip().splitlines()
OUTSIDE = statements.OUTSIDE.strip().splitlines()
CHANGES = statements.CHANGES.strip().splitlines()
TRIES = 6
HEAD = """import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from types import SimpleNamespace
"""
DEPTH = 2


class Writer:
    """The statements so far, and what the variables hold after them."""

    def __init__(self, draw: random.Random, scope: holes.Scope, raising: float) -> None:
        self.draw, self.scope, self.raising = draw, scope, raising
        self.over = False
        self.tables = TABLES
        # Each program has a leaning of its own, so that rare combinations come.
        weights = [weight * draw.choice((0.3, 1, 1, 2)) for _, weight in SUBJECTS.values()]
        self.subjects = list(
            itertools.chain(*([name] * round(10 * w) for name, w in zip(TABLES, weights, strict=True)))
        )

    def block(self, count: int, depth: int, around: tuple[str, ...] = ()) -> list[str]:
        """A body of so many statements."""
        lines: list[str] = []
        for _ in range(count):
            if self.over:
                break
            chance = self.draw.random()
            if depth and chance < 0.1:
                lines += self.context(depth, around)
            elif depth and chance < 0.22:
                lines += self.compound(depth, around)
            else:
                lines += self.statement(around)
        return lines or ["pass"]

    def statement(self, around: tuple[str, ...]) -> list[str]:
        """One statement that eager takes, or rarely one that it refuses; none where nothing fits."""
        for _ in range(TRIES):
            try:
                line = holes.fill(self.draw.choice(self.tables[self.draw.choice(self.subjects)]), self.scope, self.draw)
            except holes.Unfilled:
                continue
            if self.runs(line, around):
                return [line]
            # Kept although eager refuses it: the program ends there, or goes on as if it had not been.
            if self.draw.random() < self.raising:
                self.over = self.draw.random() < 0.8
                return [line]
        return []

    def runs(self, line: str, around: tuple[str, ...]) -> bool:
        """Runs a statement on the variables, in the contexts around it; False where eager refuses."""
        text = line
        for head in reversed(around):
            text = head + "\n" + textwrap.indent(text, "    ")
        code = compile(text, "<statement>", "exec")
        try:
            exec(code, self.scope)
        except Exception:  # noqa: BLE001 - it does not fit here
            return False
        return True

    def context(self, depth: int, around: tuple[str, ...]) -> list[str]:
        """A statement that sets a mode for its body."""
        try:
            head = holes.fill(self.draw.choice(CONTEXTS), self.scope, self.draw)
        except holes.Unfilled:
            return []
        body = self.block(self.draw.randint(1, 3), depth - 1, (*around, head))
        return [head, *indented(body)]

    def compound(self, depth: int, around: tuple[str, ...]) -> list[str]:
        """A branch, a loop or an inner function.  Bodies are written as if entered once; they may not be, so the names
        that they bring are gone after them."""
        try:
            shape = self.draw.choice(blocks.SHAPES)
            head, *rest = shape.split("{}")
            texts = [holes.fill(head, self.scope, self.draw)]
            before = dict(self.scope)
            for name in ("t", "i_"):
                # The loop's variable or the inner function's argument, on which the body is tried.
                if name in head:
                    self.scope[name] = (
                        0
                        if name == "i_"
                        else self.draw.choice([v for v in before.values() if isinstance(v, torch.Tensor)])
                    )
            for part in rest:
                over = self.over
                body = self.block(self.draw.randint(1, 3), depth - 1, around)
                # What raises in a branch does not end the program: the branch may not be taken.
                self.over = over
                texts[-1] += "\n".join(indented(body))
                for name in [name for name in self.scope if name not in before and not name.startswith("__")]:
                    del self.scope[name]
                texts.append(holes.fill(part, self.scope, self.draw))
            last = texts[-1]
        except holes.Unfilled:
            return []
        text = "".join(texts)
        # Not called while it is written: something of the usual size stands for its result.
        if shape.startswith("def inner"):
            name = last.strip().splitlines()[-1].split(" = ")[0]
            self.scope[name] = torch.ones(3) * self.draw.choice([1, 2])
        if "i_" not in before:
            self.scope.pop("i_", None)
        return text.splitlines()


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def generate(seed: int) -> str:
    """The text of a program; the same for the same seed."""
    draw = random.Random(seed)
    python_state = random.getstate()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _generate(draw, seed)
        finally:
            # Statements were run while they were drawn, and may have drawn and switched, too.
            random.setstate(python_state)
            torch.set_grad_enabled(True)


def _generate(draw: random.Random, seed: int) -> str:
    tops = [*arguments.HELPERS, arguments.model(draw)]
    made, scope = _made(draw, tops)
    given = SimpleNamespace(**{name: scope[name] for name in arguments.NAMES})
    writer = Writer(draw, scope, raising=draw.choice((0.0, 0.02, 0.02, 0.1)))
    lines = writer.block(draw.randint(2, 9), DEPTH)
    result, text = _returned(draw, scope)
    lines.append("return " + text)
    outside = Writer(draw, {"r": result, "s": given, "torch": torch}, 0.0)
    # Behind the call there are other habits: backward, steps of an optimizer, writes to results.
    outside.subjects, outside.tables = ["outside"], {"outside": OUTSIDE}
    after = outside.block(draw.randint(0, 2), 0)
    changes = [_changes(draw, scope) for _ in range(CALLS - 1)]
    return written(tops, made, lines, after, changes, seed)


def _made(draw: random.Random, tops: list[str]) -> tuple[list[str], holes.Scope]:
    """The lines that make the arguments, and what they make; drawn again where a tensor has no such view."""
    while True:
        made, scope = arguments.arguments(draw), {}
        torch.default_generator.manual_seed(5)
        try:
            exec(compile("\n".join([HEAD, *tops, *made]), "<arguments>", "exec"), scope)
        except Exception:  # noqa: BLE001
            continue
        torch.default_generator.manual_seed(0)
        return made, scope


def _returned(draw: random.Random, scope: holes.Scope) -> tuple[Any, str]:
    """The result, as the program returns it and as text."""
    found = [
        name for name in scope if name in (*holes.NAMES, "x", "y", "w", "items", "n", "state") and name not in "xyw"
    ] + ["x"]
    # Mostly what the program computed itself; arguments now and then, as programs return them, too.
    own = [name for name in found if name in holes.NAMES]
    chosen = draw.sample(own, min(len(own), draw.randint(1, 3))) + draw.sample(
        ["x", "y", "w", "items", "n"], draw.choice((0, 0, 1))
    )
    text = ", ".join(chosen or ["x"])
    text = draw.choice(
        (text, text, text, f"[{text}]", "{" + ", ".join(f'"{name}": {name}' for name in chosen or ["x"]) + "}")
    )
    try:
        return eval(text, scope), text
    except NameError:
        return scope["x"], "x"


def _changes(draw: random.Random, scope: holes.Scope) -> list[str]:
    """Lines that change something between two calls."""
    tensors = {name: scope[name] for name in ("x", "y", "w")}
    lines = draw.choices(CHANGES, k=draw.choice((0, 1, 1, 2)))
    return [holes.fill(line, tensors, draw) if "<var>" in line else line for line in lines] or ["pass"]


BESIDE_A_THREAD = "Runs beside a thread that waits."
"""In a docstring: beside other threads more is asked before effects are written, and less is captured."""


def written(
    tops: list[str], made: list[str], lines: list[str], after: list[str], changes: list[list[str]], seed: int
) -> str:
    """The whole text, without what nobody mentions."""
    rest = "\n".join([*lines, *after, *itertools.chain(*changes)])
    kept = list[str]()
    # From the last to the first, as later lines mention what earlier ones made.
    for line in reversed(made):
        if mentions(line.split()[0].split(".")[0], "\n".join([rest, *kept])):
            kept.insert(0, line)
    used = "\n".join([rest, *kept])
    classes = [top for top in tops if mentions(top.split("(")[0].split()[1], used)]
    names = [name for name in arguments.NAMES if mentions(name, "\n".join(lines))]
    every = [
        name for name in arguments.NAMES if mentions(name, used) and any(line.startswith(name + " =") for line in kept)
    ]
    beside = f"  {BESIDE_A_THREAD}" if seed % 2 else ""
    parts = [
        f'"""Made by the search from seed {seed}.{beside}"""\n\n' + HEAD.strip(),
        *classes,
        "\n".join(["def make():", *indented([*kept, "return dict(" + ", ".join(f"{n}={n}" for n in every) + ")"])]),
        "\n".join([f"def program({', '.join(n for n in names if n in every)}):", *indented(lines)]),
        "\n".join(["def after(r, s):", *indented(after)]),
        "\n".join(["def change(s, call):", "    if call == 1:", *indented(indented(changes[0])),
                   "    else:", *indented(indented(changes[1]))]),
    ]  # fmt: skip
    return "\n\n\n".join(part.strip() for part in parts) + "\n"


def mentions(name: str, text: str) -> bool:
    """True if the text has the name as a word."""
    return re.search(rf"\b{name}\b", text) is not None
