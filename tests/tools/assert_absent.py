"""Fails if any of the named packages can be imported: proof that an environment holds one of ours and no other."""

import importlib.util
import sys

present = [name for name in sys.argv[1:] if importlib.util.find_spec(name)]
sys.exit(f"not alone: {', '.join(present)} can be imported here" if present else 0)
