"""Programs that write: every in-place, view-writing and ``out=`` form of torch's operators, gradients taken all ways.

Each operand in turn requires a gradient; the loss goes backward inside of the program, outside of it, or its gradients
are asked for inside.  What a program gave is data, to be compared with what it gives compiled.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

# For each sample these look for torch's own test that asks, by reading the sources of all callers: there is none.
for part in ("common_utils", "opinfo.core"):
    importlib.import_module(f"torch.testing._internal.{part}").extract_test_fn = lambda: None  # type: ignore[attr-defined]
FORMS = ("in_place", "slice", "alias", "out")
ENDS = ("backward", "grad", "outside")


@dataclass(frozen=True)
class Written:
    """An operator on one of torch's samples, the way it writes, who wants a gradient, and how that is taken."""

    operator: Any
    form: str
    end: str
    operands: tuple[Any, ...]
    rest: Any  # how the operands lie in the call
    wanting: Any  # the number of one operand, or "all"

    def __str__(self) -> str:
        return f"{self.operator.name} {self.form} {self.end} {self.wanting}"

    def step(self, *tensors: Any) -> Any:
        out = tensors[-1]
        args, kwargs = pytree.tree_unflatten(list(tensors[:-1] if self.form == "out" else tensors), self.rest)
        if self.form == "out":
            self.operator.op(*args, **kwargs, out=out)
            written = out
        else:
            written = args[0].clone()
            shown = {"in_place": written, "slice": written[:1], "alias": written.view(written.shape)}[self.form]
            self.operator.inplace_variant(shown, *args[1:], **kwargs)
        loss = loss_of([written, written * 2] if self.form == "alias" else written)
        if self.end == "grad":
            wanting = [t for t in tensors if isinstance(t, torch.Tensor) and t.requires_grad]
            return written, torch.autograd.grad(loss, wanting, allow_unused=True)
        if self.end == "backward":
            loss.backward()
        return written, loss

    def outcome(self, run: Callable[..., Any]) -> tuple[Any, ...]:
        tensors = [self._twin(number, operand) for number, operand in enumerate(self.operands)]
        torch.manual_seed(0)
        try:
            found = run(self.step)(*tensors)
            if self.end == "outside":
                found[1].backward()
        except Exception as error:  # noqa: BLE001 - whatever eager raises is what is compared
            return type(error), str(error).split("\n")[0]
        leaves = pytree.tree_leaves(tensors)
        grads = [each.grad if isinstance(each, torch.Tensor) else None for each in leaves]
        return tuple(
            e.detach() if isinstance(e, torch.Tensor) else e for e in [*pytree.tree_leaves(found), *grads, *leaves]
        )

    def _twin(self, number: int, operand: Any) -> Any:
        twin = pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone(), operand)
        wanted = self.wanting == number or (self.wanting == "all" and _is_real(operand))
        return twin.requires_grad_() if wanted else twin


def loss_of(result: Any) -> torch.Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for value in pytree.tree_leaves(result):
        if _is_real(value):
            real = torch.view_as_real(value) if value.is_complex() else value
            weights = torch.linspace(0.5, 1.5, real.numel(), dtype=torch.float64).view(real.shape)
            total = total + (real * weights).sum()
    return total


def same(expected: tuple[Any, ...], found: tuple[Any, ...]) -> bool:
    return len(expected) == len(found) and all(map(_alike, expected, found))


def _alike(expected: Any, found: Any) -> bool:
    if not isinstance(expected, torch.Tensor) or not isinstance(found, torch.Tensor):
        return bool(expected == found)
    if expected.dtype != found.dtype or expected.shape != found.shape:
        return False
    # Eager multiplies by a sixth of single precision in the gradient of hardsigmoid, whatever the type.
    return torch.allclose(expected, found, rtol=1e-7, atol=1e-8, equal_nan=True)


def _is_real(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def operators() -> list[Any]:
    chosen = {op.full_name: op for op in op_db if torch.float64 in op.supported_dtypes("cpu")}
    return [op for op in chosen.values() if op.inplace_variant is not None or op.supports_out]


def programs(operator: Any, forms: tuple[str, ...] = FORMS, ends: tuple[str, ...] = ENDS) -> Iterator[Written]:
    for form in forms:
        if not (operator.supports_out if form == "out" else operator.inplace_variant):
            continue
        sample = _first_sample(operator, form)
        if sample is None:
            continue
        operands, rest = sample
        wanting: list[Any] = [number for number, operand in enumerate(operands) if _is_real(operand)][:3]
        for who in [*wanting, *(["all"] if len(wanting) > 1 else [])]:
            for end in ends:
                yield Written(operator, form, end, operands, rest, who)


def _first_sample(operator: Any, form: str) -> tuple[tuple[Any, ...], Any] | None:
    for sample in operator.sample_inputs("cpu", torch.float64):
        if form != "out" and not (isinstance(sample.input, torch.Tensor) and sample.input.dim()):
            continue
        operands, rest = pytree.tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
        if form == "out":
            made = operator.op(*((sample.input, *sample.args)), **sample.kwargs)
            if not all(isinstance(each, torch.Tensor) for each in pytree.tree_leaves(made)):
                return None
            operands = [*operands, pytree.tree_map(torch.zeros_like, made)]
        return tuple(operands), rest
    return None
