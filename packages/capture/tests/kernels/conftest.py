"""Puts this folder on the path: the kernels that tests look at are a module of their own."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
