"""Makes the first page of the documentation: one function followed through every stage.

``python examples/one_function.py`` writes ``docs/index.md``; a test compares the page with what the tool prints now.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch

from compile_api.walkthrough import walkthrough

PAGE = Path(__file__).parent.parent / "docs" / "index.md"

OPENING = """\
# One function, every stage

compile-api compiles unmodified PyTorch programs. This page follows one small function from Python to machine code.
Every block below was printed by the tool, with `compile_api.walkthrough(attention_weights)(scores, mask)`; the words
between them say why each stage is there.
"""

EXPLAINED = {
    "The function": "What the user wrote. Nothing about it is special: no annotations, no restrictions.",
    "Its bytecode": (
        "CPython compiled it to bytecode. When the function is called inside a compiled region, a hook in CPython's "
        "frame evaluation (PEP 523) hands the frame to `capture` before a single instruction has run."
    ),
    "The captured graph": (
        "`capture` evaluates the bytecode symbolically. Python happens at once: names, numbers, containers, calls. "
        "Operations on tensors are recorded with the metadata of their results, and become this graph."
    ),
    "What the graph relies on": (
        "The graph is right as long as these hold. They are checked in C on every call, and a call that fails one is "
        "captured anew."
    ),
    "The bytecode that runs instead": (
        "When the guards hold, this runs in the frame's place: the compiled graph is called, and what Python would "
        "have built from its results is built."
    ),
    "The forward graph": (
        "`aotgrad` traces the graph and its backward together, ahead of time, into functional ATen operators, and "
        "splits them. This half computes the result and what backward needs."
    ),
    "The forward graph: loops, before fusion": (
        "`inductor` turns operators into loops over expressions: a softmax is a maximum, a sum and a division."
    ),
    "The forward graph: the program, after fusion": (
        "What works on the same rows is laid into one kernel. The memory plan is part of the program."
    ),
    "The forward graph: the kernels": "The kernel as C++, with explicit vectors, for a machine with AVX2.",
    "The forward graph: the wrapper": "What runs on every call: checks of what the code relies on, memory, kernels.",
    "The backward graph": (
        "The other half, compiled when it is first needed. What is cheap is computed again instead of being kept."
    ),
    "The backward graph: loops, before fusion": "The same stages again.",
}


def attention_weights(scores, mask):
    scores = scores * 0.125
    return torch.softmax(scores + mask, dim=-1)


def page() -> str:
    torch.manual_seed(0)
    walked = walkthrough(attention_weights, inductor_options={"vector_bytes": 32})(
        torch.randn(8, 100, requires_grad=True), torch.zeros(100)
    )
    parts = [OPENING]
    for stage in walked.stages:
        heading, block = str(stage).split("\n", 1)
        words = EXPLAINED.get(stage.title)
        parts.append(heading + (f"\n\n{words}\n" if words else "\n") + block)
    # Addresses differ from run to run and say nothing.
    return re.sub(r' at 0x[0-9a-f]+|, file "[^"]+", line \d+(?=>)', "", "\n".join(parts))


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"wrote {PAGE}")
