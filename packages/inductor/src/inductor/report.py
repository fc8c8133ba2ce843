"""The report of one compiled graph as data: its kernels, calls, fallbacks and the seconds of each stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel as it was built; ``operators`` are those fused into it."""

    name: str
    source: str
    path: Path | None
    operators: tuple[str, ...]
    from_cache: bool


@dataclass(frozen=True, slots=True)
class Fallback:
    """An operator that runs as torch's own kernel, and the reason."""

    operator: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """The report of one graph.  ``lowered`` counts the operators that went into kernels (or are views), ``nests`` the
    loops there were before fusion; ``bytes`` is the memory that the kernels read and write in one call, as far as sizes
    are known, and ``seconds`` the time of each stage.  ``from_cache`` where no stage ran, because another compilation,
    of this process or an earlier one, had left the whole on disk; ``not_stored`` is the reason why this one has not."""

    kernels: tuple[CompiledKernel, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    library_calls: tuple[str, ...] = ()
    lowered: Mapping[str, int] = field(default_factory=dict)
    nests: int = 0
    bytes: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    failure: str | None = None
    from_cache: bool = False
    not_stored: str | None = None

    def __str__(self) -> str:
        if self.failure is not None:
            return f"runs operator by operator: {self.failure}"
        lines = [
            f"{len(self.kernels)} kernels, {len(self.library_calls)} library calls, {len(self.fallbacks)} fallbacks; "
            f"{self.bytes} bytes read and written"
        ]
        lines += [f"  kernel {kernel.name}: {', '.join(kernel.operators)}" for kernel in self.kernels]
        lines += [f"  library {call}" for call in self.library_calls]
        if self.lowered:
            lines.append(f"  lowered: {', '.join(_times(*item) for item in sorted(self.lowered.items()))}")
        lines += [f"  fallback {fallback.operator}: {fallback.reason}" for fallback in self.fallbacks]
        lines += ["  taken up from the cache"] if self.from_cache else []
        lines += [f"  {name}: {1000 * seconds:.1f} ms" for name, seconds in self.seconds.items()]
        return "\n".join(lines)


def _times(operator: str, count: int) -> str:
    return operator if count == 1 else f"{operator} x{count}"
