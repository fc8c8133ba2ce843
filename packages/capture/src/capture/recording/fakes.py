"""Fake tensors for real ones: the same metadata, no data.

``FakeTensorMode.from_tensor`` makes them for any tensor there is, and imports half a second's worth of torch for it.
Nearly all inputs of a graph are plain tensors of known sizes, for which a few lines do; the rest goes the long way.
"""

from __future__ import annotations

from typing import Any

import torch

from capture.silence import raised, silenced
from capture.torch_versions import (
    DisableTorchDispatch,
    FakeTensor,
    FakeTensorMode,
    base_of,
    cdata_of,
    is_view,
    version_of,
)


class Fakes:
    """One per graph, so that inputs that share memory do so as fakes too."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self.mode = mode
        self._memory: dict[int, torch.UntypedStorage] = {}
        self._elsewhere: set[int] = set()

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The fake of a tensor whose sizes are known."""
        if self._is_plain(tensor):
            if not torch.is_inference_mode_enabled():
                return self._plain(tensor)
            with torch.inference_mode(False):  # it is no inference tensor, and neither is its fake
                return self._plain(tensor)
        self._elsewhere.add(_memory_of(tensor) if tensor.layout is torch.strided else 0)
        with silenced():
            return self.mode.from_tensor(tensor, static_shapes=True, trace=False)

    def _is_plain(self, tensor: torch.Tensor) -> bool:
        """True if a fake has to carry over nothing but type, layout, device and whether gradients are wanted."""
        return (
            type(tensor) in (torch.Tensor, torch.nn.Parameter)
            and tensor.layout is torch.strided
            and not tensor.is_quantized
            and not (tensor.is_conj() or tensor.is_neg() or tensor.is_inference())
            and tensor.device.type in ("cpu", "cuda")
            and (tensor.is_leaf or not is_view(tensor))
            and _memory_of(tensor) not in self._elsewhere
        )

    def _plain(self, tensor: torch.Tensor) -> torch.Tensor:
        """The fake of such a tensor, over the fake memory that its storage has."""
        # The modes in force are for the program's tensors: this one is made below all of them.
        with DisableTorchDispatch(), torch.no_grad():
            memory = self._memory.get(_memory_of(tensor))
            if memory is None:
                nbytes = tensor.untyped_storage().nbytes()
                memory = torch.empty(nbytes, dtype=torch.uint8, device="meta").untyped_storage()
                self._memory[_memory_of(tensor)] = memory
            shell = torch.empty(0, dtype=tensor.dtype, device="meta")
            shell.set_(memory, tensor.storage_offset(), tensor.size(), tensor.stride())
        fake = FakeTensor(self.mode, shell, tensor.device)
        if isinstance(tensor, torch.nn.Parameter):
            fake._is_param = True
        fake.requires_grad_(tensor.requires_grad)
        return fake if tensor.is_leaf else self.with_history(fake)

    def with_history(self, fake: torch.Tensor) -> torch.Tensor:
        """A fake that is no leaf, so that the program may change it in place."""
        with torch.enable_grad(), self.mode:
            if not fake.requires_grad:
                return fake.view_as(fake)
            copy = fake.clone()
            if str(copy.stride()) == str(fake.stride()):  # to compare symbolic ones would be a guard
                return copy
            size, stride = fake.size(), fake.stride()
            # An expanded tensor: a clone gives each element its own place, which has to be taken back.
            if any(isinstance(step, int) and not step for step in stride):
                return copy.as_strided(size, stride)
            return torch.empty_strided(size, stride, dtype=fake.dtype, device=fake.device).copy_(fake)

    def viewed(self, fake: torch.Tensor) -> torch.Tensor:
        """The fake once more, as a view."""
        with torch.enable_grad(), self.mode:
            return torch.ops.aten.alias.default(fake)

    def like_its_base(self, base: torch.Tensor) -> torch.Tensor:
        """A fake that wants gradients only because its base does, which ``base`` stands for."""
        base.requires_grad_(True)
        with torch.no_grad(), self.mode:
            return base.view_as(base)


def has_gradients_of_its_base(tensor: torch.Tensor) -> bool:
    """True for a leaf that wants gradients and gets none: its base got to want them later."""
    if not (tensor.requires_grad and tensor.is_leaf and is_view(tensor)):
        return False
    with torch.enable_grad():
        step: Any = tensor.view_as(tensor).grad_fn
    return step is not None and step.next_functions[0][0] is None


def is_unaware_of_its_history(tensor: torch.Tensor) -> bool:
    """True for a view that came without a history, whose base has one since, and that nobody has looked at.

    To torch it is a leaf, which is refused to whoever changes it in place, and no longer is once somebody asks for its
    history.  Torch looks past that, and warns, where it is asked for the gradient of what is no leaf.
    """
    if not (tensor.requires_grad and is_view(tensor)) or tensor.is_inference() or tensor.retains_grad:
        return False
    base = base_of(tensor)
    if base is None or not base.requires_grad or (base.is_leaf and not version_of(base)):
        return False
    try:
        with raised():
            return tensor.grad is None
    except UserWarning:
        return False


class Arrived:
    """The metadata with which an input came, which operators may change besides its data.

    A backend is told what comes with the call, and not what the graph has made of it.
    """

    def __init__(self, fake: torch.Tensor) -> None:
        self._gradients = _gradients_of(fake)
        self._version = _version_of(fake)
        self._layout: Any = None
        if fake.layout is torch.strided:
            self._layout = fake.size(), fake.stride(), fake.storage_offset()
            self._memory = _memory_of(fake)

    def changes_gradients(self, fake: torch.Tensor) -> bool:
        """True if it wants gradients otherwise than when it came, or has been detached."""
        return self._gradients != _gradients_of(fake)

    def changes_layout(self, fake: torch.Tensor) -> bool:
        """True if it lies otherwise than when it came, or elsewhere."""
        if self._layout is None:
            return False
        layout = fake.size(), fake.stride(), fake.storage_offset()
        return _memory_of(fake) != self._memory or str(layout) != str(self._layout)

    def again(self, fake: torch.Tensor, fakes: Fakes) -> torch.Tensor:
        """The fake as it came: itself, if nothing but its data was changed."""
        same = self._gradients == _gradients_of(fake)
        if self._layout is None or (same and self._version == _version_of(fake) is not None):
            return fake
        layout = fake.size(), fake.stride(), fake.storage_offset()
        # Other memory than it came with is not to be undone: `_Checked` breaks the graph there.
        if _memory_of(fake) != self._memory or (same and str(layout) == str(self._layout)):
            return fake
        with torch.no_grad(), fakes.mode:
            came = fake.detach().as_strided(*self._layout).data  # no view
        wanted_gradients, was_leaf = self._gradients
        came.requires_grad_(wanted_gradients)
        return came if was_leaf else fakes.with_history(came)


def _gradients_of(fake: torch.Tensor) -> tuple[bool, bool]:
    """The two facts that autograd knows a tensor by: whether it wants gradients, and whether it is a leaf."""
    try:
        return fake.requires_grad, fake.is_leaf
    except RuntimeError:  # a view made without histories, of what has one since: torch tells nothing more of it
        return fake.requires_grad, False


def _version_of(tensor: torch.Tensor) -> int | None:
    """The count of a tensor's changes; None for tensors made in inference mode, which count none."""
    return None if tensor.is_inference() else int(version_of(tensor))


def _memory_of(tensor: torch.Tensor) -> int:
    return int(cdata_of(tensor.untyped_storage()))
