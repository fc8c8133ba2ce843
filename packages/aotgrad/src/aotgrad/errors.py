"""What aotgrad refuses, and why: one hierarchy, so that a caller can catch it and run the graph eagerly.

Must not know: tracing, graphs, torch.  A message says what happened and what to do about it.
"""


class AotgradError(RuntimeError):
    """Base of every error that this package raises by itself."""


class Unsupported(AotgradError):
    """The program is fine, but these graphs cannot express it; running it eagerly is right."""

    def __init__(self, what: str, hint: str, where: str = "") -> None:
        super().__init__(f"{what}{f' at {where}' if where else ''}; {hint}")
        self.what = what
        self.hint = hint
        self.where = where


class DependsOnValues(Unsupported):
    """A size or number depends on what a tensor holds, and the trace has no symbols to name it by."""


class WrongArguments(AotgradError, TypeError):
    """An entry point was given something other than it takes; the message says what does take it."""


class BadGraph(AotgradError):
    """A stage produced a graph that breaks its contract: a bug in aotgrad or in a decomposition."""


class InputChanged(AotgradError):
    """A compiled graph was called with a value other than the one it was compiled for."""
