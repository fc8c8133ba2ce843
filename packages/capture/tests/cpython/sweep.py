"""Runs the whole of CPython's ``test`` package twice, plainly and with its functions captured, and tells what differs.

    python sweep.py [--shard 1/8] [--log FILE] [--only MODULE]...

Every module runs in child processes, which a time limit ends.  What becomes of it is a line of JSON at the end of the
log; whoever calls again with the same log goes on after the last.  What is known to differ is in ``expected.py``: an
entry that does not differ any more counts as a difference, too.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import platform
import signal
import sys
import tempfile
import time
from pathlib import Path

from expected import EXPECTED, is_stale, known

FEWEST_SECONDS, MOST_SECONDS = 60, 300
TIMES_AS_LONG = 3  # what capturing may cost, where there is nothing to gain
REPORT = {
    "same": "end alike",
    "skipped": "are skipped by CPython itself",
    "unfinished": "do not come to an end in plain CPython",
    "differs": "differ",
}


def find_modules():
    """Every module of tests there is, below ``test``: packages by their parts."""
    folder = Path(importlib.util.find_spec("test").submodule_search_locations[0])
    found = []
    for path in folder.rglob("test_*"):
        parts = path.relative_to(folder).with_suffix("").parts
        within = [folder.joinpath(*parts[:count]) for count in range(1, len(parts))]
        is_module = path.suffix == ".py" or (path / "__init__.py").is_file()
        if parts[0].startswith("test_") and is_module and all((part / "__init__.py").is_file() for part in within):
            found.append(".".join(("test", *parts)))
    return sorted(found)


# -- one module ----------------------------------------------------------------------------------------------------


def child(mode, module, folder):
    """The life of a forked process: one module's tests, and what became of them in a file."""
    from run_module import Outcomes, faulthandler, run_tests

    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started this in the background ignores it
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, output), (2, output)):
        os.dup2(source, descriptor)
    os.chdir(folder)
    faulthandler.enable()
    progress = os.open(folder / "progress", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    outcomes = Outcomes(tell=False, started=lambda name: os.pwrite(progress, name.encode().ljust(300), 0))
    told = run_tests(mode, module, outcomes)
    (folder / "outcomes.json").write_text(json.dumps({"outcomes": outcomes.outcomes, **told}))


def run_apart(mode, module, limit):
    """What became of a module's tests in a process of their own; ``died`` says why there is no more."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        pid = os.fork()
        if pid == 0:
            try:
                child(mode, module, folder)
            finally:
                os._exit(0)
        status = wait(pid, limit)
        try:
            return json.loads((folder / "outcomes.json").read_text())
        except (OSError, ValueError):
            return {"died": f"{status} in {read_end(folder / 'progress')}: {read_end(folder / 'output')}"}


def wait(pid, limit):
    """How a process ended; with what it started, after the limit."""
    end, pause, status = time.monotonic() + limit, 0.01, None
    while status is None and time.monotonic() < end:
        found, code = os.waitpid(pid, os.WNOHANG)
        status = f"exit status {os.waitstatus_to_exitcode(code)}" if found else None
        time.sleep(0 if found else pause)
        pause = min(pause * 1.2, 0.3)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    if status is None:
        os.waitpid(pid, 0)
    return status or f"not finished after {limit:.0f} s"


def read_end(path):
    return path.read_text(errors="replace").strip()[-1500:] if path.exists() else ""


# -- two runs compared ---------------------------------------------------------------------------------------------


def unlike(plain, captured):
    """Test to (outcomes without capture, outcomes with it), where they are not the same."""
    names = {**plain["outcomes"], **captured["outcomes"]}
    pairs = {name: (plain["outcomes"].get(name), captured["outcomes"].get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def compare(module):
    """The line of the log for a module."""
    plain = run_apart("plain", module, MOST_SECONDS)
    if "died" in plain:
        return {"kind": "unfinished", "died": plain["died"]}
    limit = FEWEST_SECONDS + 2 * TIMES_AS_LONG * plain["seconds"]
    captured = run_apart("captured", module, limit)
    again = run_apart("captured", module, limit) if "died" in captured else captured
    if "died" in again:
        return {"kind": "differs", "died": again["died"]}
    captured, different = again, unlike(plain, again)
    unstable = []
    if different:  # where a test does not end the same way every time, nothing can be told
        second, plain_second = run_apart("captured", module, limit), run_apart("plain", module, MOST_SECONDS)
        if "died" not in second and "died" not in plain_second:
            repeated = unlike(plain_second, second)
            unstable = [name for name in different if name not in repeated]
            different = {name: pair for name, pair in different.items() if name in repeated}
    return {
        "kind": kind_of(plain, different),
        "tests": len(plain["outcomes"]),
        "different": different,
        "unstable": unstable,
        "mistakes": sorted(set(captured["mistakes"])),
        "seconds": [round(plain["seconds"], 2), round(captured["seconds"], 2)],
        "counters": captured["counters"],
    }


def kind_of(plain, different):
    if different:
        return "differs"
    skipped = [all(end.startswith("skipped") for end in ends) for ends in plain["outcomes"].values()]
    return "skipped" if skipped and all(skipped) else "same"


# -- all of them ---------------------------------------------------------------------------------------------------


def read_log(path):
    lines = path.read_text().splitlines() if path.exists() else []
    return {line["module"]: line for line in map(json.loads, lines) if line["python"] == platform.python_version()}


def sweep(modules, path):
    """Appends a line to the log for every module that has none."""
    done = read_log(path)
    for module in modules:
        if module not in done:
            line = {"module": module, "python": platform.python_version(), **compare(module)}
            with open(path, "a") as log:
                log.write(json.dumps(line) + "\n")
            print(line["kind"], module, line.get("seconds", ""), line.get("died", "")[:200], flush=True)


def report(lines):
    """Prints what a log says; whether nothing differs but what is listed, and all of that."""
    for kind, words in REPORT.items():
        print(sum(line["kind"] == kind for line in lines), "modules", words)
    found = {name for line in lines for name in line.get("different", ())}
    died = [line["module"] for line in lines if line["kind"] == "differs" and "died" in line]
    modules = tuple(line["module"] + "." for line in lines if "different" in line)
    stale = [entry for entry in EXPECTED if is_stale(entry, found, modules)]
    unlisted = [name for name in found if not known(name)]
    for words, names in (("not listed", unlisted), ("died", died), ("listed, and ends alike", stale)):
        print("".join(f"{words}: {name}\n" for name in sorted(names)), end="")
    return not (unlisted or died or stale)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shard", default="1/1", help="which part of how many")
    parser.add_argument("--log", type=Path, default=Path("cpython-tests.jsonl"))
    parser.add_argument("--only", action="append", help="a module, instead of all")
    chosen = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ.update(PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        os.execv(sys.executable, [sys.executable, *sys.argv])
    index, count = map(int, chosen.shard.split("/"))
    modules = [f"test.{name}" for name in chosen.only or ()] or find_modules()[index - 1 :: count]
    sys.path.insert(0, str(Path(__file__).parent))
    import run_module  # once, for all the processes that are forked

    run_module.warm_up()
    log = chosen.log.absolute()
    sweep(modules, log)
    done = read_log(log)
    sys.exit(not report([done[module] for module in modules]))


if __name__ == "__main__":
    main()
