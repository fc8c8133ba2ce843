"""Pool memory in the hands of callers, as torch sees it.

What a recording returns is lent out at every replay, but only ever to one call at a time: a recording is not replayed
while anybody holds what it returned.  So the same storages serve for all calls, and whether somebody holds one is a
count of its users.  Must not know recordings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import ne
from sys import getrefcount

import torch
from torch import Tensor, UntypedStorage

from .storage import Block, View

_users = torch._C._storage_Use_Count
_Lend = Callable[[Block, Sequence[View]], list[Tensor]]


class Handout:
    """Tensors over several blocks, new objects at each call over the same storages; a block is known by its slot."""

    def __init__(self, lend: _Lend, blocks: Sequence[tuple[Block, Sequence[View]]]) -> None:
        self._lend, self._blocks = lend, blocks
        self._templates: list[list[Tensor]] = [[] for _ in blocks]
        self._storages: list[UntypedStorage] = [UntypedStorage(0) for _ in blocks]
        self._addresses, self._uses, self._objects = [0] * len(blocks), [0] * len(blocks), [0] * len(blocks)
        for slot in range(len(blocks)):
            self._begin(slot)

    def _begin(self, slot: int) -> None:
        templates = self._templates[slot] = self._lend(*self._blocks[slot])
        self._storages[slot] = templates[0].untyped_storage()
        self._addresses[slot] = self._storages[slot]._cdata
        # What this object itself holds; whatever comes on top is a caller's, be it a tensor, a view of it, autograd's
        # copy, or the Python object of the storage.
        self._uses[slot] = _users(self._addresses[slot])
        self._objects[slot] = list(map(getrefcount, self._storages))[slot]  # counted as ``held`` counts
        self._flat = [template for templates in self._templates for template in templates]

    def tensors(self) -> list[Tensor]:
        """Over all blocks, in order.  To be called only while nobody holds the earlier ones."""
        return [template.data for template in self._flat]

    def tensors_of(self, slot: int) -> list[Tensor]:
        """The same for one block."""
        return [template.data for template in self._templates[slot]]

    def held(self) -> list[int]:
        """The slots whose memory a caller still holds."""
        uses, objects = list(map(_users, self._addresses)), list(map(getrefcount, self._storages))
        if uses == self._uses and objects == self._objects:
            return []
        held = zip(map(ne, uses, self._uses), map(ne, objects, self._objects), strict=True)
        return [slot for slot, (used, known) in enumerate(held) if used or known]

    def forbid(self, slot: int, message: str) -> None:
        """Make whatever is out there raise when it is used; tensors handed out from now on are of another storage."""
        torch._C._set_storage_data_ptr_access_error_msg(self._addresses[slot], message)
        with torch.inference_mode(self._templates[slot][0].is_inference()):
            self._begin(slot)


def copies(storages: Sequence[UntypedStorage]) -> list[UntypedStorage]:
    """Each storage copied into memory of its own, in one launch."""
    if len(storages) == 1:
        return [storages[0].clone()]
    sources = [_bytes(storage) for storage in storages]
    made = [torch.empty_like(source) for source in sources]
    torch._foreach_copy_(made, sources)
    return [copy.untyped_storage() for copy in made]


def _bytes(storage: UntypedStorage) -> Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
