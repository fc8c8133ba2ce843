"""Refusals: the reasons why a call is not recorded, as data, and the errors of the package.

Exists so that every refusal has one name and one explanation.  It must not know how a refusal is found or what is
done about it: a refused call runs the caller's own function, which is always right.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Refusal(Enum):
    """A reason to run a call as it is.  The value says what happened and what would change it."""

    TORCH_LACKS = "this torch lacks something that recording needs"
    NO_CUDA = "there is no CUDA device; graphs need one"
    CPU_INPUT = "an input lives on the CPU; move it to the device, or pass a Python number or a 0-d tensor"
    CPU_OPERATOR = "an operator of the graph works on CPU tensors; move them to the device or split the graph there"
    CPU_OUTPUT = "an output lives on the CPU; only what stays on the device can be replayed"
    OTHER_DEVICE = "a tensor lives on another device; one graph belongs to one device"
    NEEDS_GRAD = "autograd would record this call; capture its forward and its backward as functions of their own"
    UNKNOWN_VALUE = "an input is neither a tensor nor a plain value, so changes in it could not be noticed"
    UNKNOWN_OUTPUT = "an output is neither a tensor nor a plain value, so a replay could not make it anew"
    OVERLAPPING_LAYOUT = "an input's elements share memory with one another in a way that cannot be copied"
    OVERLAPPING_INPUTS = "a mutated input shares memory with another input, which copying would separate"
    DYNAMIC_SHAPE = "an operator's output size depends on the data; a replay always makes the same sizes"
    DATA_DEPENDENT = "an operator hands the data to Python; a replay does not return to Python"
    UNSAFE_OPERATOR = "the function did something that cannot be recorded"
    KEEPS_MEMORY = "the function keeps a tensor that it does not return; a replay would overwrite it"
    UNKNOWN_MEMORY = "an output lives in memory that the recording neither made nor was given"
    TOO_MANY_RECORDINGS = "as many recordings were made as the options allow"
    POOL_FULL = "the pool holds as much memory as the options allow"
    POOL_DISTURBED = "memory of the pool is held by someone unknown, so nothing more is recorded in it"
    DEVICE_FAILED = "the device or its allocator failed to do what a recording needs"
    NO_GAIN = "replays were measured to be no faster than plain calls"

    @property
    def text(self) -> str:
        """The explanation for a reader."""
        return self.value


@dataclass(frozen=True, slots=True)
class Refused:
    """One refusal: the function, the reason, and what exactly was seen where."""

    function: str
    reason: Refusal
    detail: str = ""
    where: str = ""

    def __str__(self) -> str:
        parts = [f"{self.function}: {self.reason.text}", self.detail, self.where and f"at {self.where}"]
        return "; ".join(part for part in parts if part)


class CudaGraphsError(Exception):
    """The root of the errors of this package."""


class CannotRecord(CudaGraphsError):
    """The error raised while a graph is planned or recorded; the manager catches it and runs the call as it is."""

    def __init__(self, reason: Refusal, detail: str = "", where: str = "") -> None:
        super().__init__(f"{reason.text}; {detail}" if detail else reason.text)
        self.reason, self.detail, self.where = reason, detail, where

    def refused(self, function: str) -> Refused:
        """The refusal as the record that is kept of it."""
        return Refused(function, self.reason, self.detail, self.where)
