"""``compile-api run`` and ``compile-api explain``: an existing program, its ``torch.compile`` calls served by us.

The program is run as ``python`` would run it: its own folder first on the path, its arguments in ``sys.argv``, its name
``__main__``, its exit status ours.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import sys
import traceback
from types import ModuleType

import capture
from compile_api import dropin
from compile_api.commands.programs import Program, program_of_file, program_of_module, program_of_text
from compile_api.errors import CompileApiError

COMMANDS = {
    "run": "run a program with its torch.compile calls served by compile-api",
    "explain": "run a program so, and report on everything that it compiled",
}


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    for name, text in COMMANDS.items():
        parser, report = commands.add_parser(name, help=text), name == "explain"
        if not report:
            parser.add_argument("--report", action="store_true", help="print what was compiled, at the end")
        rest = argparse.REMAINDER  # the program's own, options too
        parser.add_argument("-m", dest="module", nargs=rest, metavar="module", help="run a module instead of a script")
        parser.add_argument("-c", dest="text", nargs=rest, metavar="text", help="run this text")
        parser.add_argument("program", nargs=rest, metavar="script.py args...", help="- is standard input")
        parser.set_defaults(run=run, report=report)


def run(chosen: argparse.Namespace) -> int:
    if not (chosen.module or chosen.text or chosen.program):
        raise CompileApiError(f"no program was given: compile-api {chosen.command} script.py args...")
    at_the_end = contextlib.ExitStack()
    at_the_end.callback(_restore, sys.argv, list(sys.path), sys.modules["__main__"])
    try:
        return _run(chosen, at_the_end)
    finally:
        if not chosen.whole_process:  # else threads of the program, and what it left to `atexit`, find all as it was
            at_the_end.close()


def _run(chosen: argparse.Namespace, at_the_end: contextlib.ExitStack) -> int:
    program, sys.argv = _program(chosen)
    sys.modules["__main__"] = program.main
    dropin.install()
    at_the_end.callback(dropin.uninstall)
    if chosen.report:
        (atexit.register if chosen.whole_process else at_the_end.callback)(_print_reports)
    try:
        program.run()
    except (CompileApiError, capture.CaptureError):  # the program's, as any other error of it
        traceback.print_exc()
        return 1
    return 0


def _program(chosen: argparse.Namespace) -> tuple[Program, list[str]]:
    """The program to run, and its ``sys.argv``; its own modules are found from now on, and those beside ours no
    longer."""
    if chosen.whole_process and not sys.flags.safe_path:
        del sys.path[0]  # what Python put there for `compile-api`
    named, *arguments = chosen.module or chosen.text or chosen.program
    if chosen.module:
        sys.path.insert(0, os.getcwd())
        program = program_of_module(named)
        return program, [program.name, *arguments]
    if chosen.text:
        program, named = program_of_text("<string>", named), "-c"
        del program.main.__file__
    else:
        program = program_of_text("<stdin>", sys.stdin.read()) if named == "-" else program_of_file(named)
    sys.path.insert(0, program.folder)
    return program, [named, *arguments]


def _restore(argv: list[str], path: list[str], main: ModuleType) -> None:
    sys.argv, sys.path[:], sys.modules["__main__"] = argv, path, main


def _print_reports() -> None:
    reports = dropin.served_reports()
    for number, report in enumerate(reports, 1):
        print(f"--- {number} of {len(reports)} calls of torch.compile", file=sys.stderr)
        print(report, file=sys.stderr)
    if not reports:
        reason = (
            "torch.compile was switched off" if dropin.was_switched_off() else "the program did not call torch.compile"
        )
        print(f"{reason}: nothing was compiled", file=sys.stderr)
