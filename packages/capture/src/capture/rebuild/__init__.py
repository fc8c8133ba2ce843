"""How each kind of value is made again by the transformed code, and how changes of objects are made real.

Importing the package fills the writer's tables; whoever writes code takes the writer from here.
"""

from capture.emit import Writer, is_result
from capture.rebuild import callables, containers, effects, iterators, locks, objects, plain

__all__ = ["Writer", "callables", "containers", "effects", "is_result", "iterators", "locks", "objects", "plain"]
