"""Every row of the feature table names a test that exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROWS = re.findall(r"^\| (.+?) \| `(.+?)::(\w+)` \|$", (ROOT / "docs" / "features.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize(("capability", "file", "test"), ROWS, ids=[row[0] for row in ROWS])
def test_the_row_names_a_test(capability, file, test):
    assert re.search(rf"^ *def {test}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file} has no {test}"


def test_no_row_is_without_a_test():
    table_rows = [line for line in (ROOT / "docs" / "features.md").read_text().splitlines() if line.startswith("| ")]
    headings = [line for line in table_rows if line == "| capability | shown by |"]
    assert len(table_rows) - len(headings) == len(ROWS) > 40
