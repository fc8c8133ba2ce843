"""The numbers that decide what pays stand in one place, each with what it stands for."""

import ast
import re
from pathlib import Path

import pytest

from inductor import costs

SOURCE = Path(costs.__file__)
NUMBER = re.compile(r"^(_?[A-Z][A-Z_0-9]+)(?:: \w+)? = [-(]*\d", re.MULTILINE)
ROOMS = ("schedule/*.py", "lowerings/*.py", "triton_*.py", "lower.py", "refused.py")
DECIDING = [path for room in ROOMS for path in SOURCE.parent.glob(room)]
NO_COSTS = {
    ("sizes", "SMALLEST"): "the range of integers that indices are sure of",
    ("sizes", "_MOST_OF_64_BITS"): "the largest integer",
    ("sizes", "_MOST_ELEMENTS"): "what no memory holds",
    ("sizes", "_FAR"): "what no size reaches",
    ("random", "STREAM"): "the distance of random streams, which may not meet",
    ("activations", "_TANH_CUBE"): "a coefficient of a formula",
    ("activations", "_SIXTH"): "another, as precise as torch's kernels have it",
    ("context", "OF_IMAGES"): "numbers of dimensions",
    ("bounds", "_TWO_VECTORS"): "the width of eager's vectors, by which it chooses between two zeros",
    ("refused", "_LONGEST_ASKED"): "how large a window may be for torch to be asked whether it refuses",
    ("refused", "_LARGEST_ASKED"): "the memory that a question may take",
}
"""Numbers of modules that say what is right, not what pays."""


@pytest.mark.parametrize("kind", [costs.Costs, costs.CpuCosts, costs.GpuCosts])
def test_every_number_says_what_it_stands_for(kind):
    (made,) = (node for node in ast.parse(SOURCE.read_text()).body if getattr(node, "name", "") == kind.__name__)
    numbers, reasons = made.body[1::2], made.body[2::2]
    assert [number.target.id for number in numbers] == list(kind.__dataclass_fields__)
    assert all(isinstance(reason.value.value, str) for reason in reasons)


@pytest.mark.parametrize("path", DECIDING, ids=lambda path: path.stem)
def test_what_decides_has_no_numbers_of_its_own(path):
    of_correctness = {name for stem, name in NO_COSTS if stem == path.stem}
    assert set(NUMBER.findall(path.read_text())) == of_correctness


def test_every_number_is_read_somewhere():
    texts = "".join(path.read_text() for path in SOURCE.parent.rglob("*.py"))
    for target in ("ANY", "CPU", "GPU"):
        for name in getattr(costs, target).__dataclass_fields__:
            assert f"costs.{target}.{name}" in texts
