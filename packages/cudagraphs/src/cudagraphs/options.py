"""The limits and thresholds of the package: one frozen object, read nowhere else than where it is passed.

Must not know who uses it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from .errors import CudaGraphsError


@dataclass(frozen=True, slots=True)
class Options:
    """The limits of a captured function: calls, recordings, memory.

    ``warmups``: plain calls per size before the first recording.  At the first, libraries initialise and kernels are
    tuned; the others are timed.
    ``recordings_per_function``: graphs kept for one function, over all sizes and branches.
    ``pool_bytes``: no new recording once the pool has reserved this much; None is no limit.
    ``copy_below``: an output found held, or an input found moved, is copied from then on if it is no larger than this.
    ``branches``: how often a larger output may be found held, and a larger input found moved, before it is copied too.
    ``gain_samples``: replays timed, and compared with the plain calls, before recordings are kept; 0 trusts them.
    """

    warmups: int = 3
    recordings_per_function: int = 16
    pool_bytes: int | None = None
    copy_below: int = 0
    branches: int = 2
    gain_samples: int = 3

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int and not (value is None and field.default is None):
                wanted = "an integer or None" if field.default is None else "an integer"
                raise CudaGraphsError(f"option {field.name} is {wanted}, not {value!r}")
        if self.warmups < 1:
            raise CudaGraphsError(f"warmups={self.warmups}: the first call cannot be recorded, so at least 1")
        if min(self.recordings_per_function, self.copy_below, self.branches, self.gain_samples) < 0:
            raise CudaGraphsError(f"no limit may be negative: {self}")
