"""What guards say, in explanations and where they fail."""

import torch

from capture.guards import Guard
from capture.sources import ArgSource


def test_a_dict_keyed_by_tensors_is_said_without_their_numbers():
    keys = tuple(torch.full((2,), 12345.0) for _ in range(5))
    sentence = Guard(ArgSource(0, "state"), "keys", (keys,)).sentence()
    assert sentence.startswith("state has the keys (float32 tensor of shape (2) on cpu, ")
    assert "12345" not in sentence
