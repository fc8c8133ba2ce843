"""Why capture stops is one list of kinds: texts to those who count records, members to the code."""

from pathlib import Path

import pytest
import torch

import capture
from capture.reasons import Kind, Reason

SOURCES = Path(capture.__file__).parent


def test_every_kind_is_given_somewhere():
    text = "".join(path.read_text() for path in SOURCES.rglob("*.py"))
    assert [kind for kind in Kind if f"Kind.{kind.name}" not in text] == []


def test_a_kind_is_the_text_that_records_are_counted_by():
    reason = Reason(Kind.TENSOR_VALUE, "a branch")
    assert reason.kind == "tensor value"
    assert (f"{reason.kind}", repr(reason)) == (
        "tensor value",
        "Reason(kind='tensor value', explanation='a branch', hint='')",
    )


def test_a_history_that_was_used_up_is_left_to_cpython():
    w = torch.ones(3, requires_grad=True)

    def twice(x):
        loss = (w * x).exp().sum()
        loss.backward()
        loss.backward()

    capture.reset()
    with pytest.raises(RuntimeError, match="second time"):
        capture.optimize(lambda gm, inputs: gm.forward)(twice)(torch.ones(3))
    left = [record.reason.explanation for record in capture.records() if isinstance(record, capture.FallbackRecord)]
    assert "a history that a backward in the function used up is gone through again" in left
