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

SHAPES = """
if <c>:
{}

if <c>:
{}

if <c>:
{}
else:
{}

for i_ in range(<e>):
{}

for i_ in range(2):
{}

for t in <l>[:3]:
{}

for i_, t in enumerate([<f>, <f>]):
{}

turn_ = n
while turn_ < 3:
{}
    turn_ += 1

try:
{}
except (RuntimeError, ValueError, IndexError, TypeError) as error:
    seen.append(type(error).__name__)

try:
{}
finally:
{}

for i_ in range(3):
{}
    if <c>:
        break

for i_ in range(3):
    if i_ == 1:
        continue
{}

try:
{}
    raise KeyError(n)
except KeyError:
{}

def inner(t):
{}
    return t * 2
<new> = inner(<f>)

def inner(t):
{}
    return t * 2
<new> = checkpoint(inner, <f>, use_reentrant=False)
""".strip().split("\n\n")
"""Compound statements; ``{}`` is a body of statements."""
