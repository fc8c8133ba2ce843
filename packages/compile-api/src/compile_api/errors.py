"""The errors of compile_api itself.  Errors of the engines stay theirs and pass through untouched."""

from __future__ import annotations


class CompileApiError(Exception):
    """Base of this package's errors."""


class UnknownBackend(CompileApiError, ValueError, RuntimeError):
    """A backend's name that nobody has registered.  ``torch.compile`` raises a ``RuntimeError`` there: this is one
    too."""


class BackendNotReady(CompileApiError, ImportError):
    """The backend exists but lacks a package, a device or a compiler; the message says how to get it."""


class BackendCannot(CompileApiError):
    """The backend does not take this graph (an operator, a dtype, a gradient); it runs eagerly instead."""


class BadOption(CompileApiError, ValueError, RuntimeError):
    """An option, mode or stance that does not exist, or two that contradict each other.  ``torch.compile`` raises a
    ``RuntimeError`` there: this is one too."""


class MissingGradients(CompileApiError):
    """A backward in a graph that leaves out leaves which eager's reaches, found under ``options={"check": True}``."""


class NothingToMinify(CompileApiError):
    """The folder given to the minifier shows no failure."""
