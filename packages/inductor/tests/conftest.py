"""Puts this folder on the path: tests share the reference interpreter."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
