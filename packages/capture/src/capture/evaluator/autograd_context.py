"""The ``ctx`` of ``forward`` of a ``torch.autograd.Function``, while that is only looked at."""

from __future__ import annotations


class FunctionContext:
    """Takes what a forward leaves for its backward."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self._kept: tuple[object, ...] = ()
        self._looks_back = False
        self.gives_zeros = True  # for the gradients of outputs that nobody used

    def save_for_backward(self, *tensors: object) -> None:
        self._kept = tensors

    @property
    def saved_tensors(self) -> tuple[object, ...]:
        """The tensors that forward kept; that they are read is noted."""
        self._looks_back = True
        return self._kept

    def save_for_forward(self, *tensors: object) -> None:
        pass

    def mark_dirty(self, *tensors: object) -> None:
        pass

    def mark_non_differentiable(self, *tensors: object) -> None:
        pass

    def set_materialize_grads(self, value: bool) -> None:
        self.gives_zeros = value
