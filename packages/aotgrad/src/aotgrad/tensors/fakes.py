"""Fake tensors of real ones: the same layout and type, no data.

`FakeTensorMode.from_tensor` makes one of any tensor, and imports seconds' worth of torch for it.  Plain tensors of
known sizes, which nearly all are, need a few lines only.
Must not know: inputs, graphs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from aotgrad.errors import Unsupported
from aotgrad.tensors.functional import memory_of
from aotgrad.torch_versions import DisableTorchDispatch, FakeTensor, FakeTensorMode


class Fakes:
    """A factory of the fake tensors of one trace: real tensors that share memory get fake ones that do."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self.mode = mode
        self._memory: dict[int, torch.UntypedStorage] = {}
        self._made_by_torch: set[int] = set()

    def of(self, tensor: torch.Tensor, *, dynamic: bool = False) -> FakeTensor:
        """The fake of a detached tensor; with `dynamic`, of dynamic sizes."""
        if not dynamic and _is_plain(tensor) and memory_of(tensor) not in self._made_by_torch:
            return self._plain(tensor)
        if tensor.layout is torch.strided:
            if memory_of(tensor) in self._memory:
                raise Unsupported(
                    "inputs share memory that is read in two ways (conjugated, or of varying sizes)", "pass copies"
                )
            self._made_by_torch.add(memory_of(tensor))
        fake: FakeTensor = self.mode.from_tensor(tensor, static_shapes=not dynamic)
        return fake

    def _plain(self, tensor: torch.Tensor) -> FakeTensor:
        memory = self._memory.get(memory_of(tensor))
        if memory is None:
            memory = self._memory[memory_of(tensor)] = self.memory(tensor.untyped_storage().nbytes())
        layout = tensor.size(), tensor.stride(), tensor.storage_offset()
        return self.over(memory, tensor.dtype, tensor.device, *layout)

    def memory(self, size: int) -> torch.UntypedStorage:
        """Memory of so many bytes, and no data."""
        with DisableTorchDispatch(), torch.inference_mode(False):
            return torch.empty(size, dtype=torch.uint8, device="meta").untyped_storage()

    def over(
        self,
        memory: torch.UntypedStorage,
        dtype: torch.dtype,
        device: torch.device,
        size: Sequence[int],
        stride: Sequence[int],
        offset: int,
    ) -> FakeTensor:
        """A fake over that memory."""
        with DisableTorchDispatch(), torch.inference_mode(False), torch.no_grad():
            shell = torch.empty(0, dtype=dtype, device="meta")
            shell.set_(memory, offset, size, stride)
            return FakeTensor(self.mode, shell, device)


def _is_plain(tensor: torch.Tensor) -> bool:
    """True if layout, dtype and device say everything about the tensor."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and tensor.device.type in ("cpu", "cuda")
        and not (tensor.requires_grad or tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
        and not tensor.is_inference()
    )
