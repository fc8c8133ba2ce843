"""Modules of FX graphs, whose text goes with them: FX keeps each for tracebacks, and would keep it for ever."""

from __future__ import annotations

import linecache
import weakref

import torch
from torch import fx

# Torch's own table of texts; a torch without one keeps them in `linecache` alone.
_TEXTS: dict[str, str] = getattr(getattr(fx.graph_module, "_loader", None), "eval_cache", {})


def graph_module(root: torch.nn.Module, graph: fx.Graph, name: str = "GraphModule") -> fx.GraphModule:
    """A module that runs ``graph`` with what ``root`` holds."""
    module = fx.GraphModule(root, graph, class_name=name)
    _let_text_go_with(module)
    return module


def recompile(module: fx.GraphModule) -> None:
    """Writes a module's ``forward`` anew after its graph was changed."""
    module.recompile()
    _let_text_go_with(module)


def _let_text_go_with(module: fx.GraphModule) -> None:
    forward = type(module).forward
    weakref.finalize(forward, _forget_text, forward.__code__.co_filename).atexit = False


def _forget_text(filename: str) -> None:
    linecache.cache.pop(filename, None)
    _TEXTS.pop(filename, None)
