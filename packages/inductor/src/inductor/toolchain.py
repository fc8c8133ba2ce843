"""The C++ compiler: found, asked to build, and its libraries loaded.

What was built once is found again by its contents without running the compiler, nor even asking for its version: the
compiler is known by its file.  It must not know what the sources mean.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from inductor import runtime
from inductor.cache import Cache, key_of
from inductor.compiler_faults import FAULTS, flags_against_faults
from inductor.complaints import complain
from inductor.errors import BuildError, CacheError, InductorError
from inductor.options import Options
from inductor.state import STATE

FLAGS = (
    "-O3",
    "-march=native",
    "-std=c++17",
    "-fopenmp",
    "-fPIC",
    "-shared",
    "-fwrapv",  # integers wrap, as torch's do
    "-ffp-contract=off",  # a * b + c is rounded twice, as eager does it
    "-fno-math-errno",
    "-fvisibility=default",
    "-w",
)
HEADERS = Path(runtime.__file__).parent


@dataclass(frozen=True, slots=True)
class Machine:
    """The features of the processor, and the size of its vector registers."""

    features: str
    vector_bytes: int


@dataclass(frozen=True, slots=True)
class Library:
    """A loaded library, and the path of its source."""

    functions: ctypes.CDLL
    source: Path
    from_cache: bool


@cache
def machine() -> Machine:
    """The processor's features, as the kernel lists them."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            start = file.read(8192)
    except OSError:
        start = ""
    flags = next((line for line in start.splitlines() if line.startswith(("flags", "Features"))), "")
    names = set(flags.split())
    if {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= names:
        return Machine(flags, 64)
    return Machine(flags, 32 if "avx2" in names else 16)


@cache
def find_compiler(wanted: str | None) -> list[str]:
    """The compiler's path and what comes before our flags, as in ``CXX="ccache g++"``; ``wanted`` names it, else the
    environment, else the usual names."""
    named = wanted or os.environ.get("CXX") or ""
    # A path with blanks is one word; only if there is no such program, the text is a command.
    candidates = [[named], _words(named)] if named.strip() else [["g++"], ["clang++"]]
    for first, *more in candidates:
        if path := shutil.which(first):
            return [path, *more]
    looked = named or "g++, clang++"
    raise BuildError(f"no C++ compiler found (looked for {looked}); install g++ or clang++, or name one by $CXX")


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quotation without an end
        return [command]


@cache
def _identity(compiler: str) -> str:
    """A text that identifies the compiler: its file changes with its version."""
    real = os.path.realpath(compiler)
    status = os.stat(real)
    return f"{real} {status.st_size} {status.st_mtime_ns}"


@cache
def _headers_digest() -> str:
    return key_of(path.read_text(encoding="utf-8") for path in sorted(HEADERS.glob("*.h")))


@dataclass(frozen=True, slots=True)
class Tools:
    """The compiler, the words before our flags, all flags, and everything that the contents of a library depend on
    beside its source."""

    compiler: str
    more: tuple[str, ...]
    flags: tuple[str, ...]
    identity: tuple[str, ...]


def tools(options: Options) -> Tools:
    """The compiler and flags for these options; raises where there is no compiler."""
    compiler, *more = find_compiler(options.compiler)
    flags = (*more, *FLAGS, *options.cpp_flags)
    called = (program for program in (compiler, *map(shutil.which, more)) if program is not None)
    identity = (*map(_identity, called), machine().features, _headers_digest(), *flags, repr(FAULTS))
    return Tools(compiler, tuple(more), flags, identity)


def build(sources: Sequence[str], options: Options, done: Callable[[int, int], None] | None = None) -> list[Library]:
    """Each source as a loaded library: from the cache, or built now, several at once.

    ``done`` is called with the number built and the number to build, each time that one more is.
    """
    with_tools = tools(options)
    compiler, more, flags = with_tools.compiler, with_tools.more, with_tools.flags
    # Equal sources are built once.
    texts = {key_of((source, *with_tools.identity)): source for source in sources}

    def into(store: Cache, found: dict[str, Path]) -> dict[str, Library]:
        missing = {key: source for key, source in texts.items() if key not in found}
        if missing:
            with store.scratch() as scratch:
                safe = (*flags, *flags_against_faults([compiler, *more]))
                built = _compile(compiler, safe, missing, Path(scratch), options.build_processes, done)
                for key, library in built.items():
                    found[key] = store.keep(key, library.with_suffix(".cpp"), library)
        return {key: _load(found[key], key not in missing, compiler) for key in texts}

    loaded = _in_cache(open_cache(options), texts, into)
    return [loaded[key_of((source, *with_tools.identity))] for source in sources]


def built_before(keys: Sequence[str], store: Cache) -> list[Library] | None:
    """The libraries of these keys, loaded from the cache; None where one is not there, or cannot be loaded."""
    paths = [store.find(key) for key in keys]
    try:
        return [_load(path, True, "") for path in paths if path is not None] if all(paths) else None
    except CannotLoad:
        return None


def _in_cache(
    store: Cache,
    keys: Collection[str],
    into: Callable[[Cache, dict[str, Path]], dict[str, Library]],
    known: Mapping[str, Path] = MappingProxyType({}),
) -> dict[str, Library]:
    """The libraries by key, made by ``into`` in the first cache that works: ``store``, or the spare one where that
    cannot be read, is full or may not hold code that is loaded."""
    found: dict[str, Path] = {}
    try:
        found.update({key: path for key in keys if (path := known.get(key) or store.find(key)) is not None})
        if len(found) < len(keys) and store.spare is not None and _failed_before(store) and not store.has_room():
            raise CacheError(f"there is no room in the kernel cache {store.folder}")
        return into(store, dict(found))
    except CannotLoad as error:
        failed: InductorError = error
        # What could not be loaded from here is not handed on to the spare cache.
        found.clear()
    except CacheError as error:
        failed = error
    except BuildError as error:
        if store.has_room():
            raise
        failed = CacheError(f"there is no room in the kernel cache {store.folder} ({error})")
    if store.spare is None:
        raise failed
    # Reported only after the spare one has worked: its own error would say more.
    loaded = _in_cache(store.spare(), keys, into, found)
    store.on_failure(str(failed))
    return loaded


def open_cache(options: Options) -> Cache:
    """The user's cache, or where it cannot be used one that ends with the process."""
    on_failure = functools.partial(_tell_once, str(options.cache_folder()))
    try:
        return Cache(options.cache_folder(), options.cache_bytes, lambda: _of_this_process(options), on_failure)
    except CacheError as error:
        on_failure(str(error))
        return _of_this_process(options)


def _of_this_process(options: Options) -> Cache:
    return Cache(_process_folder(), options.cache_bytes)


def _failed_before(store: Cache) -> bool:
    return str(store.folder.parent) in STATE.unusable_folders


def _tell_once(folder: str, why: str) -> None:
    if folder not in STATE.unusable_folders:
        STATE.unusable_folders.add(folder)
        complain(f"{why}; kernels are built for this process only", stacklevel=2)


def _process_folder() -> Path:
    with STATE.making_folder:
        try:
            STATE.spare_folder = STATE.spare_folder or tempfile.TemporaryDirectory(prefix="compile-api-")
        except OSError as error:
            raise CacheError(f"no folder can be written to for building kernels: {error.strerror}") from error
        return Path(STATE.spare_folder.name)


def _compile(
    compiler: str,
    flags: Sequence[str],
    sources: dict[str, str],
    scratch: Path,
    processes: int | None,
    done: Callable[[int, int], None] | None,
) -> dict[str, Path]:
    """Runs the compiler on every source, at most ``processes`` at once."""
    limit = processes or len(os.sched_getaffinity(0))
    waiting, running = list(sources), dict[str, subprocess.Popen[bytes]]()
    built: dict[str, Path] = {}
    try:
        while waiting or running:
            while waiting and len(running) < limit:
                key = waiting.pop(0)
                running[key] = _start(compiler, flags, scratch / f"{key}.cpp", sources[key])
            key = next(iter(running))
            built[key] = scratch / f"{key}.so"
            _finish(running.pop(key), built[key], compiler)
            if done is not None:
                done(len(built), len(sources))
    finally:
        # One source has failed; compilers that still run would write to a folder that is gone.
        for process in running.values():
            process.kill()
            process.communicate()
    return built


def _start(compiler: str, flags: Sequence[str], source: Path, text: str) -> subprocess.Popen[bytes]:
    try:
        source.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CacheError(f"cannot write a kernel's source to {source.parent}: {error.strerror}") from error
    try:
        command = [compiler, *flags, f"-I{HEADERS}", str(source), "-o", str(source.with_suffix(".so")), "-lm"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as error:
        raise BuildError(f"cannot run {compiler}: {error.strerror}") from error


def _finish(process: subprocess.Popen[bytes], library: Path, compiler: str) -> None:
    output, _ = process.communicate()
    if process.returncode or not library.exists():
        complaint = output.decode(errors="replace").strip()
        lines = complaint.splitlines() or [_silent_end(process.returncode, compiler)]
        # Without the folder, which is gone by then and may be longer than all that the compiler says.
        reason = _reason(lines).replace(f"{library.parent}{os.sep}", "")
        raise BuildError(f"{compiler} failed on a kernel: {reason[:200]}", complaint)


def _reason(lines: Sequence[str]) -> str:
    """The line that says what went wrong, rather than the compiler's remark that the linker failed."""
    telling = [line for line in lines if ("error" in line or "failed" in line) and "ld returned" not in line]
    return (telling or list(lines))[0]


def _silent_end(status: int, compiler: str) -> str:
    """The message, with advice, for a compiler that ended without output."""
    if status < 0:
        return (
            f"{signal.strsignal(-status) or f'signal {-status}'} ended it; if memory was short,"
            " option build_processes=1 runs one compiler at a time"
        )
    return (
        f"it {f'ended with status {status}' if status else 'made no library'} and said nothing;"
        f" see whether `{compiler} --version` runs, or name another compiler by $CXX"
    )


class CannotLoad(BuildError):
    """A library that was built and cannot be loaded: another linker's, or in a folder that may not hold code."""


def _load(path: Path, from_cache: bool, compiler: str) -> Library:
    try:
        return Library(ctypes.CDLL(str(path)), path.with_suffix(".cpp"), from_cache)
    except OSError as error:
        advice = f"; a C++ compiler has to link it: see what $CXX names ({compiler})"
        raise CannotLoad(f"cannot load the built kernel {path}: {error}{advice}") from error
