"""Labels: kernels under their names in ``torch.profiler``.

By itself the profiler sees what passes torch's dispatcher and what runs on a GPU, and no C++ function of ours.  A label
costs a little at every launch, so it is an option.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torch.profiler import record_function

from inductor.assemble import BuiltKernels
from inductor.codegen.plans import Plan


def labelled(built: BuiltKernels) -> BuiltKernels:
    """The kernels, with each run labelled by the kernel's name."""

    def run(name: str, plan: Plan) -> Callable[..., bool]:
        return _labelled(name, built.run(name, plan))

    return replace(built, run=run, launchers=_all_labelled(built.launchers))


def _all_labelled(launchers: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    return {name: _labelled(name, launch) for name, launch in launchers.items()}


def _labelled(name: str, launch: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        with record_function(name):
            return launch(*arguments)

    return call
