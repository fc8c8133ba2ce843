"""Version counts of results: as many writes as in eager, however kernels and libraries wrote them.

Must not know: graphs, what the counts come from.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from aotgrad.torch_versions import unsafe_set_version_counter, version_of


def with_versions(results: Sequence[torch.Tensor], versions: Sequence[int]) -> list[torch.Tensor]:
    """The results with these versions.

    A view notes at which version it last asked its base where it comes from.  Set back, it would take itself for up to
    date after as many writes, and what they brought along would get no gradient: so a new view of it takes its place.
    """
    apart = [version_of(result) != version for result, version in zip(results, versions, strict=True)]
    unsafe_set_version_counter(tuple(results), list(versions))
    return [
        torch.ops.aten.alias(result) if is_apart and result._is_view() else result
        for result, is_apart in zip(results, apart, strict=True)
    ]
