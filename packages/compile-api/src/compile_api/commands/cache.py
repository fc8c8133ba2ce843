"""``compile-api cache show|clear|pack|load``: what is kept on disk between processes."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from capture import NotStored, summary_of
from compile_api.errors import CompileApiError
from compile_api.warm_start.bundles import load_cache, save_cache
from compile_api.warm_start.store import cache, versions
from inductor import Options, cached_files, remove_cached_files


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "cache",
        help="show or clear the folder of built kernels, pack it into a file, or load one (which is loading code)",
    )
    parser.add_argument("action", choices=["show", "clear", "pack", "load"])
    parser.add_argument("file", nargs="?", help="the bundle to write, or to load")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    action, file = chosen.action, chosen.file
    if action in ("pack", "load") and file is None:
        raise CompileApiError(f"name the file: compile-api cache {action} FILE")
    if action in ("show", "clear") and file is not None:
        raise CompileApiError(f"cache {action} takes no file, but got {file}: COMPILE_API_CACHE names the folder")
    if action == "load":
        print(f"{load_cache(file)} entries added from {file}: code that later processes run")
        return 0
    folder = Options.read(None).cache_folder()
    if folder.exists() and not folder.is_dir():
        raise CompileApiError(f"{folder} is a file, and no folder: remove it, or let COMPILE_API_CACHE name a folder")
    if not folder.is_dir():
        nothing = f"{folder} does not exist: nothing has been compiled yet, or COMPILE_API_CACHE names another folder"
        if action == "pack":
            raise CompileApiError(nothing)
        print(nothing)
        return 0
    if action == "pack":
        print(f"{file}: {save_cache(file)} entries; who loads it loads code")
        return 0
    return show(folder) if action == "show" else clear(folder)


def show(folder: Path) -> int:
    by_kind: dict[str, list[os.stat_result]] = {}
    for path, found in _files(folder):
        by_kind.setdefault(path.suffix or "other", []).append(found)
    total = [found for kind in by_kind.values() for found in kind]
    print(f"{folder}: {len(total)} files, {_size(total) / 1e6:.1f} MB")
    for kind, files in sorted(by_kind.items()):
        oldest = (time.time() - min(found.st_mtime for found in files)) / 86400
        print(f"  {kind:8} {len(files):6} files {_size(files) / 1e6:9.2f} MB, the oldest {oldest:.1f} days")
    for line in sorted(_frames()):
        print(f"  {line}")
    return 0


def _frames() -> Iterator[str]:
    """The stored versions, by the function that they are of."""
    for path in (path for path in cache().entries() if path.suffix == ".frame"):
        for data in versions(cache().find_data(path.name) or b""):
            with contextlib.suppress(NotStored):
                summary = summary_of(data)
                kind = f"{summary.operators} operators" if summary.operators else "no operators"
                yield f"{summary.function}: {kind}, {summary.guards} guards, {len(data) / 1e3:.1f} kB"


def clear(folder: Path) -> int:
    """Removes what caches wrote; a mistyped COMPILE_API_CACHE costs nobody anything else."""
    files = [found for _, found in _files(folder)]
    remove_cached_files(folder)
    print(f"removed {len(files)} files, {_size(files) / 1e6:.1f} MB, from {folder}")
    left = sum(len(names) for _, _, names in os.walk(folder))
    if left:
        print(f"left {left} that no compiler of ours wrote", file=sys.stderr)
    return 0


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The files that caches wrote, with their sizes and times; other processes remove files meanwhile."""
    for path in cached_files(folder):
        with contextlib.suppress(OSError):
            yield path, path.stat()


def _size(files: Iterable[os.stat_result]) -> int:
    return sum(found.st_size for found in files)
