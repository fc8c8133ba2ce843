"""The holes of statements: what may stand in each, told by looking at what the variables hold at that point."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

from search.grammar.arguments import literal
from search.grammar.statements import OPERATORS, REDUCTIONS, UNARY
from search.observed import history

Scope = dict[str, Any]
HOLE = re.compile(r"<(\w+?)(\d*)>")
NUMBERS = ("0.5", "2", "-1.5", "0.1", "3.0", "-2", "1", "0", "0.3", "True")
NAMES = ("a", "b", "c", "h", "t", "u")


class Unfilled(Exception):
    """A hole that nothing in scope fits."""


def fill(template: str, scope: Scope, draw: random.Random) -> str:
    """The template with each hole filled; ``<t1>`` twice is the same thing twice."""
    chosen: dict[str, str] = {}

    def one(match: re.Match[str]) -> str:
        kind, number = match.groups()
        if not number:
            return HOLES[kind](scope, draw)
        if match.group() not in chosen:
            chosen[match.group()] = HOLES[kind](scope, draw)
        return chosen[match.group()]

    return HOLE.sub(one, template)


def reachable(scope: Scope) -> Iterator[tuple[str, Any]]:
    """Variables, and what stands in containers, namespaces and modules, as a program would write them."""
    for name, value in scope.items():
        # Modules and classes are what the text imports.
        if name.startswith("_") or isinstance(value, (type, type(torch))):
            continue
        yield name, value
        if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
            yield from ((f"{name}[{index}]", part) for index, part in enumerate(value[:3]))
        elif isinstance(value, dict):
            yield from ((f"{name}[{key!r}]", part) for key, part in list(value.items())[:4] if isinstance(key, str))
        elif isinstance(value, torch.nn.Module):
            yield from ((f"{name}.{path}", part) for path, part in value.named_parameters() if "." not in path)
            yield from ((f"{name}.{path}", part) for path, part in value.named_buffers() if "." not in path)
            children = [(path, part) for path, part in value.named_children() if hasattr(part, "weight")]
            yield from ((f"{name}{_child(path)}.weight", part.weight) for path, part in children)
        elif type(value).__name__ == "SimpleNamespace":
            yield from ((f"{name}.{path}", part) for path, part in vars(value).items())


def _child(path: str) -> str:
    return f"[{path}]" if path.isdigit() else f".{path}"


def pick(fits: Callable[[Any], bool]) -> Callable[[Scope, random.Random], str]:
    """A chooser among everything reachable that fits; plain names more often than parts of something."""

    def choose(scope: Scope, draw: random.Random) -> str:
        found = [text for text, value in reachable(scope) if fits(value)]
        if not found:
            raise Unfilled
        plain = [text for text in found if text.isidentifier()]
        return draw.choice(plain if plain and draw.random() < 0.7 else found)

    return choose


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _whole(scope: Scope, draw: random.Random) -> str:
    """An integer: a number, a variable, a size or a length."""
    texts = ["0", "1", "2", "3", "-1"] + [text for text, value in reachable(scope) if type(value) is int] * 2
    texts += [f"{text}.shape[0]" for text, value in reachable(scope) if isinstance(value, torch.Tensor) and value.dim()]
    texts += [f"len({text})" for text, value in reachable(scope) if isinstance(value, (list, dict))]
    return draw.choice(texts)


def _condition(scope: Scope, draw: random.Random) -> str:
    """A condition: on numbers, on values of tensors, or on what autograd knows of them."""
    whole, floating = (HOLES[kind] for kind in ("e", "f"))
    texts = ["flag", "not flag"] if "flag" in scope else []
    texts += [f"{whole(scope, draw)} {draw.choice(['<', '==', '>=', '!='])} {whole(scope, draw)}"] * 2
    tensor = floating(scope, draw)
    texts += [f"{tensor}.sum() > 0", f"{tensor}.requires_grad", f"{tensor}.grad is None", f"{tensor}.is_leaf"]
    texts += [f"{tensor}.dim() == 2", f"{tensor} is {floating(scope, draw)}", "torch.is_grad_enabled()"]
    texts += [f"{text}.training" for text, value in reachable(scope) if isinstance(value, torch.nn.Module)]
    return draw.choice(texts)


def _new(scope: Scope, draw: random.Random) -> str:
    return draw.choice(NAMES)


def _number(scope: Scope, draw: random.Random) -> str:
    wholes = [text for text, value in reachable(scope) if type(value) in (int, float)]
    return draw.choice([*NUMBERS, *wholes[:2]])


def _tensor(fits: Callable[[torch.Tensor], bool]) -> Callable[[Scope, random.Random], str]:
    return pick(lambda value: isinstance(value, torch.Tensor) and fits(value))


# `as_strided` of two elements that there are: behind a tensor's own elements its memory may hold more of an operator's
# (the losses before they were averaged), which nobody promises.
VIEWS = """
<f>[0]
<f>[1:]
<f>[:1]
<f>[..., 0]
<f>[::2]
<f>[None]
<f>.view(-1)
<f>.t()
<f>.T
<f>.mT
<f>.reshape(-1)
<f>.flatten()
<f>.unsqueeze(0)
<f>.squeeze()
<f>.detach()
<f>.data
<f>.diagonal()
<f>.transpose(0, -1)
<f>.narrow(0, 0, 1)
<f>.select(0, -1)
<f>.expand(2, *<f>.shape)
<f>.chunk(2)[0]
<f>.unbind()[0]
<f>.split(1)[-1]
<f>.view_as(<f>)
<f>.movedim(0, -1)
<f>.contiguous()
<f>.real
<f>.unfold(0, 1, 1)
<f>.narrow(0, 0, 2).as_strided((2,), (1,))
<f>.unflatten(0, (-1, 1))
<f>.swapaxes(0, -1)
<f>[:, 0]
""".strip().splitlines()


def _view(scope: Scope, draw: random.Random) -> str:
    return fill(draw.choice(VIEWS), scope, draw)


HOLES: dict[str, Callable[[Scope, random.Random], str]] = {
    "t": _tensor(lambda value: True),
    "f": pick(_is_float),
    "g": pick(lambda value: _is_float(value) and value.requires_grad),
    "leaf": pick(lambda value: _is_float(value) and value.requires_grad and history(value) == "leaf"),
    "plain": pick(lambda value: _is_float(value) and not value.requires_grad),
    "long": _tensor(lambda value: value.dtype == torch.int64),
    "bool": _tensor(lambda value: value.dtype == torch.bool),
    "m": pick(lambda value: isinstance(value, torch.nn.Module)),
    "o": pick(lambda value: isinstance(value, torch.optim.Optimizer)),
    "l": pick(lambda value: type(value) is list),
    "d": pick(lambda value: type(value) is dict),
    "s": pick(lambda value: type(value).__name__ == "SimpleNamespace"),
    "any": pick(lambda value: True),
    "var": lambda scope, draw: draw.choice([n for n, v in scope.items() if _is_float(v)] or NAMES),
    "e": _whole,
    "c": _condition,
    "r": _number,
    "new": _new,
    "v": _view,
    "op": lambda scope, draw: draw.choice(OPERATORS),
    "unary": lambda scope, draw: draw.choice(UNARY),
    "reduce": lambda scope, draw: draw.choice(REDUCTIONS),
    "literal": lambda scope, draw: literal(draw),
    "dt": lambda scope, draw: draw.choice(
        ("torch.float32", "torch.float32", "torch.float64", "torch.bfloat16", "torch.int64", "torch.bool")
    ),
}  # fmt: skip
