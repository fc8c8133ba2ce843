"""The logs of compiling, printed as it happens: ``COMPILE_LOGS=breaks,recompiles`` or ``set_logs("kernels")``.

Each artifact is a logger below ``compile_api``, so that a program which configures logging decides where lines go; one
that does not reads them on standard error.  A view of the ledger: nothing here is found out, only printed.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import capture
from capture import CaptureWarning, inform
from compile_api.errors import BadOption
from compile_api.ledger import GraphCaptured, GraphCompiled, GraphInaccurate, GraphRefused, LayersShared, Ledger
from compile_api.options import nearest

ARTIFACTS: Mapping[str, str] = {
    "graphs": "the captured graph and its ATen graphs, as Python",
    "guards": "what each graph relies on",
    "breaks": "where a graph ended before its function did, and functions left to Python: line, reason, hint",
    "recompiles": "which assumption failed when a function was captured again",
    "kernels": "the source of every generated kernel",
    "schedule": "the steps of every program: kernels, library calls, buffers",
}

# torch's names for what means the same here.
SYNONYMS: Mapping[str, str] = {
    "graph": "graphs",
    "graph_code": "graphs",
    "aot_graphs": "graphs",
    "aot": "graphs",
    "aot_joint_graph": "graphs",
    "pre_grad_graphs": "graphs",
    "post_grad_graphs": "graphs",
    "graph_code_verbose": "graphs",
    "graph_sizes": "graphs",
    "verbose_guards": "guards",
    "dynamic": "recompiles",
    "cudagraphs": "breaks",
    "perf_hints": "breaks",
    "ir_pre_fusion": "schedule",
    "ir_post_fusion": "schedule",
    "recompiles_verbose": "recompiles",
    "graph_breaks": "breaks",
    "output_code": "kernels",
    "kernel_code": "kernels",
    "fusion": "schedule",
    "inductor": "schedule",
    "dynamo": "breaks",
}


def set_logs(*names: str | Iterable[str], **switches: bool | int) -> None:
    """Chooses the artifacts that are printed from now on: ``set_logs("breaks", "recompiles")``, ``set_logs("all")``,
    ``set_logs(graph_breaks=True)``; without arguments none is.  torch's names for the same are understood."""
    wanted = set().union(*map(_understood, names))
    for name, switch in switches.items():
        meant = _understood(name)
        wanted = wanted | meant if switch else wanted - meant
    for artifact in ARTIFACTS:
        # NOTSET is the sign for what was not chosen (``any_wanted``).
        _logger(artifact).setLevel(logging.INFO if artifact in wanted else logging.NOTSET)
    if wanted:
        _reach_standard_error()


def any_wanted() -> bool:
    """True if anything is printed: texts that take time to make are made then."""
    return any(_logger(artifact).level for artifact in ARTIFACTS)


def follow(ledger: Ledger) -> None:
    """Prints what enters ``ledger`` and its log of frames, as far as it was chosen."""
    ledger.subscribe(_print_record)
    ledger.frames.subscribe(_print_record)


def _understood(names: str | Iterable[str]) -> set[str]:
    if not isinstance(names, Iterable):
        raise BadOption(f"set_logs takes names of logs, not {names!r}; logs are {', '.join(ARTIFACTS)} and all")
    given = names.split(",") if isinstance(names, str) else list(names)
    wanted: set[str] = set()
    # ``+name`` is torch's way to ask for more.
    for name in (str(each).strip().lstrip("+") for each in given):
        if name.startswith("-"):  # torch's way to ask for less
            continue
        meant = SYNONYMS.get(name, name)
        if meant == "all":
            wanted.update(ARTIFACTS)
        elif meant in ARTIFACTS:
            wanted.add(meant)
        elif meant:
            close = nearest(meant, [*ARTIFACTS, *SYNONYMS])
            raise BadOption(f"there is no log {meant!r}{close}; logs are {', '.join(ARTIFACTS)} and all")
    return wanted


def _logger(artifact: str) -> logging.Logger:
    return logging.getLogger(f"compile_api.{artifact}")


class _StandardError(logging.StreamHandler[Any]):
    """Writes to what standard error is at the time, which tests and notebooks change."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def _reach_standard_error() -> None:
    """A handler of our own, once, unless the program has set up its logging."""
    parent = logging.getLogger("compile_api")
    if not parent.handlers and not logging.getLogger().handlers:
        handler = _StandardError()
        handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
        parent.addHandler(handler)


def write_to_file(path: str) -> None:
    """Has everything that is printed from now on written to the end of a file, too."""
    parent = logging.getLogger("compile_api")
    # The same file twice would have every line twice.
    known = (handler.baseFilename for handler in parent.handlers if isinstance(handler, logging.FileHandler))
    if os.path.abspath(path) in known:
        return
    try:
        handler = logging.FileHandler(path)
    except OSError as error:
        inform(CaptureWarning(f"logs are not written to {path}: {error.strerror}"))
        return
    handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
    parent.addHandler(handler)


def _print_record(record: object) -> None:
    for artifact, text in _TEXTS[type(record)](record) if type(record) in _TEXTS else ():
        logger = _logger(artifact)
        # Chosen here, and not switched off by the program's own configuration.
        if logger.level and logger.isEnabledFor(logging.INFO):
            logger.info(text)


def _of_break(record: capture.BreakRecord | capture.FallbackRecord) -> Iterable[tuple[str, str]]:
    what = "graph break" if isinstance(record, capture.BreakRecord) else "left to Python"
    hint = f"\n    try: {record.reason.hint}" if record.reason.hint else ""
    yield "breaks", f"{what} at {record.location}: {record.reason.explanation}\n    {record.location.source}{hint}"


def _of_recompile(record: capture.RecompileRecord) -> Iterable[tuple[str, str]]:
    yield "recompiles", f"{record.location}: {record.failed}"


def _of_single_run(record: capture.SingleRunRecord) -> Iterable[tuple[str, str]]:
    yield "recompiles", f"{record.location}: {record.reason.explanation}"


def _of_frame(record: capture.GraphRecord) -> Iterable[tuple[str, str]]:
    yield "guards", "\n".join([f"{len(record.guards)} of {record.location}", *(f"    {g}" for g in record.guards)])


def _of_captured(record: GraphCaptured) -> Iterable[tuple[str, str]]:
    yield "graphs", f"captured for {record.backend}\n{record.graph}"


def _of_compiled(record: GraphCompiled) -> Iterable[tuple[str, str]]:
    yield "graphs", f"{record.direction}\n{record.graph}"
    yield "schedule", f"{record.direction}\n{record.schedule}"
    for kernel in record.kernels:
        yield "kernels", f"{kernel.name} from {', '.join(kernel.operators)}, in {kernel.path}\n{kernel.source}"


def _of_layers(record: LayersShared) -> Iterable[tuple[str, str]]:
    yield "graphs", f"{record.layers} equal layers of {record.operators} operators are compiled once"


def _of_refused(record: GraphRefused) -> Iterable[tuple[str, str]]:
    yield "breaks", f"refused by {record.stage}: {record.reason}; {record.consequence}"


def _of_inaccurate(record: GraphInaccurate) -> Iterable[tuple[str, str]]:
    yield "breaks", f"inaccurate: {record}"


_TEXTS: Mapping[type, Callable[[Any], Iterable[tuple[str, str]]]] = {
    capture.BreakRecord: _of_break,
    capture.FallbackRecord: _of_break,
    capture.RecompileRecord: _of_recompile,
    capture.SingleRunRecord: _of_single_run,
    capture.GraphRecord: _of_frame,
    GraphCaptured: _of_captured,
    GraphCompiled: _of_compiled,
    LayersShared: _of_layers,
    GraphRefused: _of_refused,
    GraphInaccurate: _of_inaccurate,
}


def from_environment() -> None:
    """Chooses the logs that ``COMPILE_LOGS`` names; called once, when the package is imported."""
    try:
        set_logs(os.environ.get("COMPILE_LOGS", ""))
    except BadOption as error:  # a misspelt variable must not keep the program from starting
        inform(CaptureWarning(f"COMPILE_LOGS: {error}"))
