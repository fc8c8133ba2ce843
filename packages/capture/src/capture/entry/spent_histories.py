"""Tensors whose history a backward within the graph used up: given to the program as eager would, used up as well."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set

from capture.errors import SkipFrame
from capture.evaluator.assumptions import Returned, Stopped
from capture.reasons import Kind, Reason, UsedUp
from capture.recording.freed_histories import view_with_spent_history, with_spent_history
from capture.torch_versions import is_view
from capture.values.autograd_leaves import History, has_known_history
from capture.values.base import Value
from capture.values.constant import ConstantValue
from capture.values.tensor import TensorValue
from capture.writing.writer import Writer


def spent_among(results: Sequence[Value], used_up: Set[object]) -> frozenset[Value]:
    """The results that a backward in the graph leaves without the history that another would need."""
    if not used_up:
        return frozenset()
    tensors = [value for value in results if isinstance(value, TensorValue) and has_known_history(value.fake)]
    return frozenset(value for value in tensors if not used_up.isdisjoint(History([value.fake]).steps))


def insist_on_backward_once(outcome: Returned | Stopped, spent: Collection[Value]) -> None:
    """Leaves the frame to CPython where it goes backward a second time through a history that is used up.

    What that adds to gradients before it fails hangs on histories as eager has them.
    """
    if spent and isinstance(outcome, Stopped) and isinstance(outcome.reason, UsedUp):
        raise SkipFrame(
            Reason(Kind.AUTOGRAD, "a history that a backward in the function used up is gone through again")
        )


def give_as_spent(writer: Writer, value: TensorValue, known: Iterable[TensorValue]) -> None:
    """Puts in the place of a result the same numbers, with a history that raises what eager's raises."""
    assert value.fake.grad_fn is not None
    name = ConstantValue(value.fake.grad_fn.name())
    give = view_with_spent_history if is_view(value.fake) else with_spent_history
    writer.call_const(give, name, value, *_inputs_behind(value, known))
    writer.keep(value, "spent")


def _inputs_behind(value: TensorValue, known: Iterable[TensorValue]) -> list[TensorValue]:
    history = History([value.fake])
    inputs = [each for each in known if each.source is not None]
    return [each for each in inputs if id(each.fake) in history.origins or _first_step(each) in history.steps]


def _first_step(value: TensorValue) -> object:
    """The last step of the history with which an input came."""
    return value.node.meta["history"][1]
