"""On a GPU what is written to a tensor is read by other programs of the same kernel: `x.copy_(x.flip(0))`."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

import compile_api
from programs.written_from_itself import compared, every

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_every_write_of_what_is_read_elsewhere(dtype):
    compared(every, compile_api.compile(every), dtype, (37, 300), "cuda")
