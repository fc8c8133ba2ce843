"""Counts over all graphs that this process has compiled, for tests and for people who tune.

``inductor.metrics`` is the one ``Metrics`` there is; a graph's own numbers are in its report.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from inductor.report import Report


@dataclass(slots=True)
class Metrics:
    """Totals over all graphs that this process compiled.

    ``kernels`` are those that graphs run, ``kernels_from_cache`` the ones that were not built; ``nests`` are the values
    that needed a loop before fusion, ``fused_nests`` those that share a kernel with another one.  ``bytes`` is the
    memory that all kernels read and write in one call, as far as sizes are known.
    """

    graphs: int = 0
    failures: int = 0
    kernels: int = 0
    kernels_from_cache: int = 0
    nests: int = 0
    fused_nests: int = 0
    lowered: int = 0
    library_calls: int = 0
    fallbacks: int = 0
    bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def reset(self) -> None:
        """Everything back to zero."""
        # Graphs are compiled by several threads at once.
        with self._lock:
            for name in _COUNTERS:
                setattr(self, name, 0)

    def add(self, report: Report) -> None:
        """Counts one more graph."""
        with self._lock:
            self.graphs += 1
            self.failures += report.failure is not None
            self.kernels += len(report.kernels)
            self.kernels_from_cache += sum(kernel.from_cache for kernel in report.kernels)
            self.nests += report.nests
            self.fused_nests += max(report.nests - len(report.kernels), 0)
            self.lowered += sum(report.lowered.values())
            self.library_calls += len(report.library_calls)
            self.fallbacks += len(report.fallbacks)
            self.bytes += report.bytes

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in _COUNTERS}


_COUNTERS = tuple(name for name in Metrics.__slots__ if not name.startswith("_"))
