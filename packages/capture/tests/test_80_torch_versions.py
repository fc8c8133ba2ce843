"""Torch has everything of its insides that this package uses; what one of them lacks would turn off one feature."""

import pytest
import torch

from capture import insides
from capture.torch_versions import INSIDES


def test_torch_has_every_row():
    assert not INSIDES.lacking(cuda=torch.backends.cuda.is_built())


def test_what_torch_lacks_can_be_named_and_not_used():
    missing = insides.Inside("torch._C._no_such_thing", "which nobody has", "nothing happens")
    found = insides.Insides(RuntimeError, [missing]).get("no_such_thing")
    assert {found.part: 1}[found.part] == 1
    assert not found
    assert not isinstance(3, found)
    with pytest.raises(RuntimeError, match="no_such_thing`, which nobody has: nothing happens"):
        found(3)
