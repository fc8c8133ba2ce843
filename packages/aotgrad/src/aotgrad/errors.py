"""The errors of aotgrad, and reasons for them: one hierarchy, so that a caller can catch it and run the graph eagerly.

Must not know: tracing, graphs, torch.  A message says what happened and what to do about it.
"""

from __future__ import annotations

from typing import Any


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
    """A program in which a size or number depends on what a tensor holds, and the trace has no symbols to name it
    by."""


class FailsOnFakes(Unsupported):
    """A program that raises while it is traced: its own error, or a limit of fake tensors; only eager can tell
    which."""


class WrongArguments(AotgradError, TypeError):
    """An argument that an entry point does not take; the message says what does take it."""


class BadGraph(AotgradError):
    """A graph that breaks the contract of the stage which made it: a bug in aotgrad or in a decomposition."""


class InputChanged(AotgradError):
    """An argument of a compiled graph with another value than the one it was compiled for."""


def words_of(error: BaseException) -> str:
    """An exception as a sentence: its type, and its message if it has one."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else f"{type(error).__name__}, which says no more"


def refuse_miscount(error: Exception, which: str, count: int) -> None:
    """Raises for a compiled graph that returned the wrong number of values; an error from within it is left as it
    is."""
    here = error.__traceback__
    if here is not None and here.tb_next is None and "unpack" in str(error):
        raise WrongArguments(miscounted(which, count, str(error))) from None


def miscounted(which: str, count: int, found: str) -> str:
    """The message for a compiled graph that returned the wrong number of values."""
    return (
        f"the compiler of the {which} graph made a callable that does not return a list with the graph's "
        f"{count} value{'' if count == 1 else 's'}: {found}"
    )


def kind(value: Any) -> str:
    """The description of a value in the words of a message."""
    if value is None:
        return "None"
    name = getattr(value, "__qualname__", None)
    if isinstance(name, str):
        return f"the {type(value).__name__} {name}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def mark_final(error: BaseException) -> None:
    """Marks an error that came after an argument was written: running the program again would write it twice."""
    error._final = True  # type: ignore[attr-defined]


def is_final(error: BaseException) -> bool:
    """True for an error after which nobody may run the program again."""
    return getattr(error, "_final", False)
