"""The time that a GPU spends on a call: contenders' kernels side by side, from ``torch.profiler``.

A model's time is made of few kernels run often, and of gaps between them.  The table says both: how long the device was
busy per call, with how many launches, and which kernels took most of it, by their share and by kind.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

CALLS = 5
SHOWN = 25
WIDTH = 72

KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        ("attention", r"flash|fmha|attention|sdpa|softmax_bwd|mha_"),
        ("convolutions", r"conv|wgrad|dgrad|fprop|implicit|nchwToNhwc|nhwcToNchw"),
        ("matrix products", r"gemm|cutlass|nvjet|cublas|splitk|gemv|dot_kernel"),
        ("batch norms of a library", r"batch_norm|batchnorm|bn_(fw|bw)"),
        ("copies and fills", r"memcpy|memset|copy_kernel|fillfunctor"),
        ("torch's own kernels", r"at::|native::|cunn_|cub::|thrust"),
    )
)
OTHERS = "generated"


@dataclass(slots=True)
class DeviceTime:
    """Microseconds and launches per call by kernel."""

    microseconds: Counter[str] = field(default_factory=Counter)
    launches: Counter[str] = field(default_factory=Counter)

    def by_kind(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for name, time in self.microseconds.items():
            found[kind_of(name)] += time
        return found


def kind_of(kernel: str) -> str:
    """The first kind whose pattern is in the name: the order of the table decides."""
    return next((kind for kind, pattern in KINDS if pattern.search(kernel)), OTHERS)


def device_time(call: Callable[[], Any]) -> DeviceTime:
    """The kernels of a call with their times, as means over some calls."""
    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()
    found = DeviceTime()
    for event in seen.events() or ():
        if event.device_type == DeviceType.CUDA and not event.is_user_annotation:
            found.microseconds[event.name] += event.device_time_total / CALLS
            found.launches[event.name] += 1
    # Rounded up: a kernel that runs in some calls only is shown, too.
    for name in found.launches:
        found.launches[name] = -(-found.launches[name] // CALLS)
    return found


def table(contenders: Mapping[str, DeviceTime]) -> str:
    """The totals, the kinds, and the kernels that take longest, each contender in a column."""
    names, times = list(contenders), list(contenders.values())
    columns = [list(_cells(time)) for time in times]
    lines = ["".join(f"{name:{WIDTH}}" for name in names).rstrip()]
    lines += ["".join(f"{cell or '':{WIDTH}}" for cell in cells).rstrip() for cells in zip_longest(*columns)]
    return "\n".join([*lines, "", *_kinds(names, times)])


def _cells(time: DeviceTime) -> Iterator[str]:
    total, launches = sum(time.microseconds.values()), sum(time.launches.values())
    yield f"{total:9.1f} us {launches:4} launches in all"
    for name, took in time.microseconds.most_common(SHOWN):
        yield f"{took:9.1f} us {time.launches[name]:4} {short(name)}"


def _kinds(names: Sequence[str], times: Sequence[DeviceTime]) -> Iterator[str]:
    counted = [time.by_kind() for time in times]
    yield f"{'us per call, by kind':26}" + "".join(f"{name:>16}" for name in names)
    for kind in [*(kind for kind, _ in KINDS), OTHERS]:
        if any(kind in kinds for kinds in counted):
            yield f"{kind:26}" + "".join(f"{kinds[kind]:16.1f}" for kinds in counted)


def short(name: str) -> str:
    """A kernel's name without what says nothing: namespaces, qualifiers, long lists of parameters."""
    plain = re.sub(r"\b(void|at::native::|at::|c10::|\(anonymous namespace\)::|cutlass::|std::)", "", name).strip()
    return plain[: WIDTH - 20]
