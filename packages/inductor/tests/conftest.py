"""Puts this folder on the path: tests share the reference interpreter."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def pytest_terminal_summary(terminalreporter):
    """With what the run can be repeated, where something in it was drawn by lot."""
    if (drawn := sys.modules.get("operator_samples")) is not None:
        terminalreporter.write_line(
            f"operators drawn with INDUCTOR_SEED={drawn.SEED} INDUCTOR_FRACTION={drawn.FRACTION}"
        )
