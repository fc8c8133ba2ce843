"""What the tests of evaluation share: run a function plainly and captured, and insist that nobody could tell."""

import copy
import sys
from pathlib import Path

import pytest
import torch

import capture
from capture import _engine
from capture.entry.api import eager
from capture.entry.hook import Config

sys.path.insert(0, str(Path(__file__).parent))  # layers that several files use are a module of their own

# Capture computes nothing by itself.  Threads of torch that wait for one another, where more tests run than there are
# cores, take a hundred times as long as the tensors of four elements that are computed here.
torch.set_num_threads(1)


def assert_same(expected, actual):
    """Equal values of equal types, down to the items of containers and the dtypes of tensors."""
    assert type(actual) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert actual.dtype == expected.dtype
        assert actual.shape == expected.shape
        assert actual.requires_grad == expected.requires_grad
        torch.testing.assert_close(actual.detach(), expected.detach(), rtol=0, atol=0, equal_nan=True)
    elif isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected)
        for one, other in zip(expected, actual, strict=True):
            assert_same(one, other)
    elif isinstance(expected, dict):
        assert list(actual) == list(expected)
        assert_same(list(expected.values()), list(actual.values()))
    elif hasattr(expected, "__dict__") and not isinstance(expected, type):
        assert_same(vars(expected), vars(actual))
    else:
        assert actual == expected


def evaluated(function, log):
    """Captured as ``optimize`` does it, and whatever computes no tensor as well."""
    options = capture.Options(strict=True, leave_idle=False)
    return _engine.Region(function, Config(eager, options, log))


def check(function, *args, graphs=1, breaks=0, **kwargs):
    """``function`` gives the same result, or raises the same, and does the same to its arguments, captured or not."""
    expected_args, actual_args = copy.deepcopy((args, kwargs)), copy.deepcopy((args, kwargs))
    expected, raised = _outcome(function, *expected_args)
    log = capture.Log()
    region = evaluated(function, log)
    actual, also_raised = _outcome(region, *actual_args)
    assert (type(also_raised), getattr(also_raised, "args", ())) == (type(raised), getattr(raised, "args", ()))
    assert_same(expected, actual)
    assert_same(expected_args, actual_args)
    seen = log.records()
    assert not [record for record in seen if isinstance(record, capture.FallbackRecord)]
    if breaks is not None:
        found = [record for record in seen if isinstance(record, capture.BreakRecord)]
        assert len(found) == breaks, found
    if graphs is not None:
        assert len([record for record in seen if isinstance(record, capture.GraphRecord)]) == graphs
    return log


def _outcome(function, args, kwargs):
    try:
        return function(*args, **kwargs), None
    except Exception as error:  # noqa: BLE001 - whatever the function raises has to be the same
        return None, error


@pytest.fixture(autouse=True)
def no_records_of_before():
    """A log that is full tells nothing by its length."""
    capture.LOG.clear()


@pytest.fixture(name="check", scope="session")
def check_fixture():
    return check


@pytest.fixture(name="same", scope="session")
def same_fixture():
    return assert_same


@pytest.fixture
def x():
    return torch.arange(6.0).reshape(2, 3)
