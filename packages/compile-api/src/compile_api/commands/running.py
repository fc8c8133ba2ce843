"""``compile-api run`` and ``compile-api explain``: an existing program, its ``torch.compile`` calls served by us.

The program is run as ``python`` would run it: its own folder first on the path, its arguments in ``sys.argv``, its name
``__main__``, its exit status ours.
"""

from __future__ import annotations

import argparse
import importlib.util
import runpy
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import capture
from compile_api import dropin
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
        parser.add_argument("-m", dest="module", metavar="module", help="run a module instead of a script")
        parser.add_argument("program", nargs=argparse.REMAINDER, metavar="script.py args...")
        parser.set_defaults(run=run, report=report)


def run(chosen: argparse.Namespace) -> int:
    arguments = list(chosen.program)
    if not arguments and not chosen.module:
        raise CompileApiError(f"no program was given: compile-api {chosen.command} script.py args...")
    before = sys.argv, list(sys.path)
    try:
        start = _module(chosen.module, arguments) if chosen.module else _script(arguments)
        dropin.install()
        try:
            start()
        except (CompileApiError, capture.CaptureError):  # the program's, as any other error of it
            traceback.print_exc()
            return 1
        finally:
            if chosen.report:
                _print_reports()
            dropin.uninstall()
    finally:
        sys.argv, sys.path[:] = before
    return 0


def _module(module: str, arguments: list[str]) -> Callable[[], object]:
    sys.argv = [module, *arguments]
    sys.path.insert(0, "")
    _insist_on(module)
    return lambda: runpy.run_module(module, run_name="__main__", alter_sys=True)


def _script(arguments: list[str]) -> Callable[[], object]:
    script = Path(arguments[0])
    if not script.is_file():
        raise CompileApiError(f"there is no program {script}")
    sys.argv = arguments
    sys.path.insert(0, str(script.resolve().parent))
    return lambda: runpy.run_path(str(script), run_name="__main__")


def _insist_on(module: str) -> None:
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # a package on the way to it
        found = None
    if found is None:
        raise CompileApiError(f"there is no module {module}")


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
