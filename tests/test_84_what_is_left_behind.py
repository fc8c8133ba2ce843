"""Nothing is left of a compiled function that is gone, and the end of the interpreter is none of its troubles."""

from __future__ import annotations

import gc
import linecache
import subprocess
import sys

import pytest
import torch
from torch import fx

import compile_api


def compiled_and_gone(backend: str) -> None:
    compiled = compile_api.compile(lambda x: (x * 2 + 1).sum(), backend=backend)
    x = torch.ones(3, requires_grad=True)
    compiled(x).backward()
    compiled(x.detach())


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_no_text_of_a_graph_is_kept(backend: str) -> None:
    compiled_and_gone(backend)
    gc.collect()
    before = len(linecache.cache), len(fx.graph_module._loader.eval_cache)
    compiled_and_gone(backend)
    gc.collect()
    assert (len(linecache.cache), len(fx.graph_module._loader.eval_cache)) == before


AT_THE_END = """
import torch, compile_api
class Kept:
    def __init__(self):
        self.double = compile_api.compile(lambda x: x * 2, backend="eager")
        self.double(torch.ones(2))
    def __del__(self):
        print(self.double(torch.ones(3)).shape[0])
kept = Kept()
"""


def test_a_call_at_the_end_of_the_interpreter_says_nothing() -> None:
    ended = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("3\n", "")
