"""Says what to do where the engines that Python finds are not ours.

Their import names (`capture`, `aotgrad`, `inductor`, `cudagraphs`) are short, and other projects use some of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

ENGINES = ("capture", "aotgrad", "inductor", "cudagraphs")
_PAGE = "docs/troubleshooting.md, `is not the one that compile_api needs`"


@contextmanager
def own_engines() -> Iterator[None]:
    """Has an error of importing the engines that a stranger's module causes name that module and the way out."""
    try:
        yield
    except ImportError as error:
        name = (error.name or "").partition(".")[0]
        if name not in ENGINES:  # an engine's own sentence about itself, or another library's trouble
            raise
        raise ImportError(_sentence(name, error), name=error.name, path=error.path) from error


def _sentence(name: str, error: ImportError) -> str:
    ours = f"compile-api-{name}"
    if error.name == name and error.path is None:
        return f"`{name}` is not installed: pip install {ours}"
    where = f" ({error.path})" if error.path else ""
    return (
        f"the `{name}` that Python finds{where} is not the one that compile_api needs ({error}): it is another "
        f"project's or another version. Do `pip uninstall {name}` and `pip install --force-reinstall {ours}`, or "
        f"rename a file of yours that is called so ({_PAGE})"
    )
