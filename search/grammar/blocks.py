"""Heads of compound statements, and what stands around their bodies."""

from __future__ import annotations

CONTEXTS = """
with torch.no_grad():
with torch.no_grad():
with torch.enable_grad():
with torch.set_grad_enabled(<c>):
with torch.inference_mode():
with torch.autocast("cpu", dtype=torch.bfloat16):
"""

SHAPES = (
    "if <c>:\n{}", "if <c>:\n{}", "if <c>:\n{}\nelse:\n{}", "for i_ in range(<e>):\n{}", "for i_ in range(2):\n{}",
    "for t in <l>[:3]:\n{}", "for i_, t in enumerate([<f>, <f>]):\n{}", "while n < 3:\n{}\n    n += 1",
    "try:\n{}\nexcept (RuntimeError, ValueError, IndexError, TypeError) as error:\n    seen.append(type(error).__name__)",
    "try:\n{}\nfinally:\n{}", "for i_ in range(3):\n{}\n    if <c>:\n        break",
    "for i_ in range(3):\n    if i_ == 1:\n        continue\n{}", "try:\n{}\n    raise KeyError(n)\nexcept KeyError:\n{}",
    "def inner(t):\n{}\n    return t * 2\n<new> = inner(<f>)",
    "def inner(t):\n{}\n    return t * 2\n<new> = checkpoint(inner, <f>, use_reentrant=False)",
)  # fmt: skip
"""Compound statements; ``{}`` is a body of statements."""
