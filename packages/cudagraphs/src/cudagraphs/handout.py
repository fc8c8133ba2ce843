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
from .torch_versions import cdata_of, foreach_copy_, set_storage_data_ptr_access_error_msg, storage_Use_Count

_users = storage_Use_Count
_Lend = Callable[[Block, Sequence[View]], list[Tensor]]


class Handout:
    """Tensors over several blocks, new objects at each call over the same storages; a block is known by its slot."""

    def __init__(self, lend: _Lend, blocks: Sequence[tuple[Block, Sequence[View]]]) -> None:
        self._lend, self._blocks = lend, blocks
        self._templates: list[list[Tensor]] = [[] for _ in blocks]
        self._storages: list[UntypedStorage] = [UntypedStorage(0) for _ in blocks]
        self._plain = [False] * len(blocks)
        self._addresses, self._uses, self._objects = [0] * len(blocks), [0] * len(blocks), [0] * len(blocks)
        for slot in range(len(blocks)):
            self._begin(slot)

    def _begin(self, slot: int) -> None:
        templates = self._templates[slot] = self._lend(*self._blocks[slot])
        self._plain[slot] = len(templates) == 1 and _is_all_of(templates[0], self._blocks[slot][0])
        self._storages[slot] = templates[0].untyped_storage()
        self._addresses[slot] = cdata_of(self._storages[slot])
        # What this object itself holds; whatever comes on top is a caller's, be it a tensor, a view of it, autograd's
        # copy, or the Python object of the storage.
        self._uses[slot] = _users(self._addresses[slot])
        self._objects[slot] = list(map(getrefcount, self._storages))[slot]  # counted as ``held`` counts
        self._flat = [template for templates in self._templates for template in templates]

    def tensors(self) -> list[Tensor]:
        """Tensors over all blocks, in order.  To be called only while nobody holds the earlier ones."""
        return [template.data for template in self._flat]

    def tensors_of(self, slot: int) -> list[Tensor]:
        """Tensors over one block."""
        return [template.data for template in self._templates[slot]]

    def held(self) -> list[int]:
        """The slots whose memory a caller still holds."""
        uses, objects = list(map(_users, self._addresses)), list(map(getrefcount, self._storages))
        if uses == self._uses and objects == self._objects:
            return []
        held = zip(map(ne, uses, self._uses), map(ne, objects, self._objects), strict=True)
        return [slot for slot, (used, known) in enumerate(held) if used or known]

    def forbid(self, slot: int, message: str) -> None:
        """Makes tensors that are out there raise when they are used; those handed out from now on have another
        storage."""
        set_storage_data_ptr_access_error_msg(self._addresses[slot], message)
        with torch.inference_mode(self._templates[slot][0].is_inference()):
            self._begin(slot)

    def copies(self, slots: Sequence[int]) -> list[list[Tensor]]:
        """For each of these blocks, tensors over a new storage of its own, holding what lies there now."""
        made: list[list[Tensor]] = []
        together: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
        for slot in slots:
            views = self._blocks[slot][1]
            source = self._templates[slot][0] if self._plain[slot] else self._bytes(slot)
            target = torch.empty_like(source)
            sources, targets = together.setdefault(source.dtype, ([], []))
            sources.append(source)
            targets.append(target)
            made.append([target] if self._plain[slot] else _seen(target.untyped_storage(), views))
        for sources, targets in together.values():  # one launch for each type
            if len(sources) == 1:
                targets[0].copy_(sources[0])
            else:
                foreach_copy_(targets, sources)
        return made

    def _bytes(self, slot: int) -> Tensor:
        return torch.empty(0, dtype=torch.uint8, device=self._templates[slot][0].device).set_(self._storages[slot])


def _seen(storage: UntypedStorage, views: Sequence[View]) -> list[Tensor]:
    return [
        torch.empty(0, dtype=view.dtype, device=storage.device).set_(storage, view.offset, view.shape, view.strides)
        for view in views
    ]


def _is_all_of(tensor: Tensor, block: Block) -> bool:
    """True if the tensor is the whole block, each byte once; so is then a new one of its layout."""
    return 0 < tensor.numel() * tensor.element_size() == block.nbytes and tensor.storage_offset() == 0
