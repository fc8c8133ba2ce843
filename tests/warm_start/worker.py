"""The program of capture's mutation test, in processes of its own, compiled by everything together."""

import sys
from pathlib import Path

from whole import Whole

sys.path.insert(0, str(Path(__file__).parents[2] / "packages/capture/tests/stored"))

import worker

if __name__ == "__main__":
    worker.serve(Whole)
