"""The errors of inductor, in one hierarchy.  Messages say what happened, where, and what to try."""

from __future__ import annotations


class InductorError(Exception):
    """Base of every error that this package raises on purpose."""


class NotAGraph(InductorError, TypeError):
    """An argument to be compiled that is no graph; the message says how to make one of it."""


class BadCall(InductorError, TypeError):
    """Inputs or examples of the wrong number or kind."""


class BadInput(InductorError, ValueError):
    """An input or example of the right kind that the graph was not made for."""


class InvalidIR(InductorError):
    """A kernel or program breaks a rule of the IR: a defect of the pass that made it."""


class UnsupportedGraph(InductorError):
    """The FX graph holds something that has no tensor meaning here; the caller should run it as it is."""


class ParseError(InductorError):
    """A text or a file that describes no kernel or program."""


class TorchLacks(UnsupportedGraph):
    """A part of torch's insides that is needed and that this torch does not have."""


class BuildError(InductorError):
    """The compiler is missing or refused a kernel; ``complaint`` is all that it printed."""

    def __init__(self, message: str, complaint: str = "") -> None:
        super().__init__(message)
        self.complaint = complaint


class CacheError(InductorError):
    """The folder of built kernels that cannot be used."""
