"""``compile-api cache show|clear``: what is kept on disk between processes."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from compile_api.errors import CompileApiError
from inductor import Options, cached_files, remove_cached_files


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("cache", help="show or clear the folder of built kernels")
    parser.add_argument("action", choices=["show", "clear"])
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    folder = Options.read(None).cache_folder()
    if folder.exists() and not folder.is_dir():
        raise CompileApiError(f"{folder} is a file, and no folder: remove it, or let COMPILE_API_CACHE name a folder")
    if not folder.is_dir():
        print(f"{folder} does not exist: nothing has been compiled yet, or COMPILE_API_CACHE names another folder")
        return 0
    return show(folder) if chosen.action == "show" else clear(folder)


def show(folder: Path) -> int:
    by_kind: dict[str, list[os.stat_result]] = {}
    for path, found in _files(folder):
        by_kind.setdefault(path.suffix or "other", []).append(found)
    total = [found for kind in by_kind.values() for found in kind]
    print(f"{folder}: {len(total)} files, {_size(total) / 1e6:.1f} MB")
    for kind, files in sorted(by_kind.items()):
        oldest = (time.time() - min(found.st_mtime for found in files)) / 86400
        print(f"  {kind:8} {len(files):6} files {_size(files) / 1e6:9.2f} MB, the oldest {oldest:.1f} days")
    return 0


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
