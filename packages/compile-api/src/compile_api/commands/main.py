"""Reads the command line and hands over to the command's module."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import capture
import compile_api
from compile_api.commands import cache, information, minifying, running, verifying, walking
from compile_api.errors import CompileApiError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit status."""
    parser = argparse.ArgumentParser(prog="compile-api", description="Compiles unmodified PyTorch programs.")
    parser.add_argument("--version", action="version", version=compile_api.__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for module in (verifying, information, cache, running, walking, minifying):
        module.add_to(commands)
    parser.set_defaults(whole_process=arguments is None)
    chosen = parser.parse_args(arguments)
    try:
        status = int(chosen.run(chosen))
        if chosen.command not in running.COMMANDS:  # what a program printed, and may have closed, is its own concern
            sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever reads, say `| head`, has read enough
        if chosen.command in running.COMMANDS:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (CompileApiError, capture.CaptureError) as error:
        print(f"compile-api: {error}", file=sys.stderr)
        return 2
