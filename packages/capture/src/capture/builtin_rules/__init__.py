"""What functions without Python code of their own mean: a table filled by these modules."""

from capture.builtin_rules import (
    autograd,
    containers,
    context_vars,
    copying,
    exceptions,
    introspection,
    iteration,
    memoised,
    numpy_scalars,
    objects,
    operators,
    optimizers,
    scalars,
    sets,
    signatures,
    storage,
    torch_functions,
)
from capture.builtin_rules.registry import call_builtin

__all__ = [
    "autograd",
    "call_builtin",
    "containers",
    "context_vars",
    "copying",
    "exceptions",
    "introspection",
    "iteration",
    "memoised",
    "numpy_scalars",
    "objects",
    "operators",
    "optimizers",
    "scalars",
    "sets",
    "signatures",
    "storage",
    "torch_functions",
]
