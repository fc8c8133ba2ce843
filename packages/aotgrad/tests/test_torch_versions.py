"""Torch has everything of its insides that this package uses; what one of them lacks would turn off one feature."""

import pytest
import torch

from aotgrad import insides
from aotgrad.torch_versions import INSIDES


def is_in(release):
    return tuple(map(int, release.split("."))) <= tuple(map(int, torch.__version__.split(".")[:2]))


def test_torch_has_every_row_that_its_release_has():
    to_come = {row.path for row in INSIDES.rows.values() if row.since and not is_in(row.since)}
    assert set(INSIDES.lacking(cuda=torch.backends.cuda.is_built())) == to_come


def test_what_torch_lacks_can_be_named_and_not_used():
    missing = insides.Inside("torch._C._no_such_thing", "which nobody has", "nothing happens")
    found = insides.Insides(RuntimeError, [missing]).get("no_such_thing")
    assert {found.part: 1}[found.part] == 1
    assert not found
    assert not isinstance(3, found)
    with pytest.raises(RuntimeError, match="no_such_thing`, which nobody has: nothing happens"):
        found(3)
