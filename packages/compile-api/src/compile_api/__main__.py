"""``python -m compile_api``: the command line."""

import sys

from compile_api.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
