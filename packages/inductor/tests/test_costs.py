"""The numbers that decide what pays stand in one place, each with what it stands for."""

import ast
import re
from pathlib import Path

import pytest

from inductor import costs

SOURCE = Path(costs.__file__)
NUMBER = re.compile(r"^_?[A-Z][A-Z_]+ = [-(]*\d.*$", re.MULTILINE)
DECIDING = [*SOURCE.parent.glob("schedule/*.py"), *SOURCE.parent.glob("triton_*.py"), SOURCE.parent / "lower.py"]


@pytest.mark.parametrize("kind", [costs.Costs, costs.CpuCosts, costs.GpuCosts])
def test_every_number_says_what_it_stands_for(kind):
    (made,) = (node for node in ast.parse(SOURCE.read_text()).body if getattr(node, "name", "") == kind.__name__)
    numbers, reasons = made.body[1::2], made.body[2::2]
    assert [number.target.id for number in numbers] == list(kind.__dataclass_fields__)
    assert all(isinstance(reason.value.value, str) for reason in reasons)


@pytest.mark.parametrize("path", DECIDING, ids=lambda path: path.stem)
def test_what_decides_has_no_numbers_of_its_own(path):
    assert NUMBER.findall(path.read_text()) == []


def test_every_number_is_read_somewhere():
    texts = "".join(path.read_text() for path in SOURCE.parent.rglob("*.py"))
    for target in ("ANY", "CPU", "GPU"):
        for name in getattr(costs, target).__dataclass_fields__:
            assert f"costs.{target}.{name}" in texts
