"""Every operator that torch has samples for, compiled and compared with eager: values, strides, dtypes.

By default one sample of every fourth operator and dtype; INDUCTOR_ALL_SAMPLES=1 runs all samples of all of them.
"""

import os
import types
import zlib

import pytest
import torch
from operator_samples import DTYPES, OPERATORS, batches, check, name_of, samples, some

EVERY = 4
CASES = [(op, dtype) for op in OPERATORS for dtype in DTYPES if op.supports_dtype(dtype, "cpu")]
THOROUGH = CASES if "INDUCTOR_ALL_SAMPLES" in os.environ else []
FEW = [case for case in CASES if zlib.crc32(f"{name_of(case[0])}{case[1]}".encode()) % EVERY == 0]


def label(value):
    return str(value).removeprefix("torch.") if isinstance(value, torch.dtype) else name_of(value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("op", "dtype"), FEW, ids=label)
def test_one_sample(op, dtype):
    check(some(op, dtype))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("op", "dtype"), THOROUGH, ids=label)
def test_all_samples(op, dtype):
    for batch in batches(samples(op, dtype)):
        check(batch)


def operator(function, *numbers):
    """An operator with a sample for each number."""
    given = [types.SimpleNamespace(input=torch.tensor(number), args=(), kwargs={}) for number in numbers]
    return types.SimpleNamespace(op=function, name="made up", variant_test_name="", sample_inputs=lambda *_: given)


def inverse(x):
    if not x:
        raise ZeroDivisionError
    return 1 / x


def test_what_eager_refuses_is_no_sample():
    found = list(samples(operator(inverse, 2.0, 0.0, 4.0), torch.float32))
    assert [sample.tensors[0].item() for sample in found] == [2.0, 4.0]


def test_an_operator_that_eager_never_runs_does_not_pass():
    with pytest.raises(AssertionError, match="eager runs no sample of made up"):
        list(samples(operator(inverse, 0.0), torch.float32))
