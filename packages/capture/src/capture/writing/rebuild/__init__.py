"""How each kind of value is made again by the transformed code, and how changes of objects are made real.

Importing the package fills the writer's tables; whoever writes code takes the writer from here.
"""

from capture.writing.emit import Writer, is_result
from capture.writing.rebuild import (  # noqa: F401 - for what they write into the tables
    callables,
    containers,
    contexts,
    effects,
    iterators,
    locks,
    objects,
    plain,
)
from capture.writing.rebuild.contexts import enter_contexts

__all__ = ["Writer", "enter_contexts", "is_result"]
