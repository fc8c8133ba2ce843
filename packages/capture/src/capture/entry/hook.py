"""The frame-evaluation hook: the engine asks about a frame, a translation or a decision is the answer."""

from __future__ import annotations

import ctypes
import functools
import gc
import importlib
import os
import sys
import traceback
import weakref
from collections.abc import Callable, Iterable
from types import FunctionType

import torch

from capture import _engine, state
from capture.bytecode.resume import Continuations
from capture.entry import stance
from capture.entry.cache import Cache, CodeState, Piece, Verdict, Version, too_many, without_objects
from capture.entry.lean_frames import Leanness
from capture.entry.left_alone import is_captured
from capture.entry.storing import Store, Storing
from capture.entry.translate import Backend, translate
from capture.entry.translation import Translation
from capture.errors import (
    BackendError,
    CaptureWarning,
    InternalError,
    Location,
    RecompileLimitHit,
    RecompileRefused,
    Signal,
    SkipFrame,
    Unsupported,
    words_of,
)
from capture.evaluator.assumptions import SizesFixed
from capture.evaluator.foreign_marks import is_disabled, is_triton_kernel
from capture.evaluator.frame_queries import stack_depth
from capture.evaluator.idle_frames import Idleness, LeftIdle, is_left_for_good
from capture.forks import ProcessLock
from capture.guards.guard import to_spec
from capture.guards.kinds import RELATIONS
from capture.guards.sources import Inputs
from capture.informing import Waiting, inform
from capture.log import FallbackRecord, Log, RecompileRecord, SingleRunRecord
from capture.options import Options
from capture.origins import TORCH
from capture.program_settings import program_settings
from capture.reasons import Kind, Reason
from capture.recording import forward_mode, saved_tensors
from capture.signals import Delivered, HeldSignals, carrying, let_through
from capture.silence import looking
from capture.torch_versions import (
    INSIDES,
    DispatchKey,
    cdata_of,
    dispatch_tls_is_dispatch_key_excluded,
    get_tracing_state,
    len_torch_dispatch_stack,
    maybe_current_level,
    set_eval_frame,
)
from capture.values import default_devices
from capture.values.slots import has_code_for

_TRIES = 5
"""The number of times that an error has to come before it is a mistake of ours, where other threads may be the
reason."""
_DEFAULT_LIMIT = Options().recompile_limit


class Config:
    """One use of ``optimize``: its backend, its options, and everything kept for it."""

    def __init__(self, backend: Backend, options: Options, log: Log, store: Store | None = None) -> None:
        self.backend = backend
        self.options = options
        self.log = log
        self.cache = Cache()
        self.continuations = Continuations()
        self.idleness = Idleness(options.idle_instructions if options.leave_idle and not options.nopython else None)
        self.leanness = Leanness(self)
        self.storing = None if store is None else Storing(self, store)
        self.lock = ProcessLock()
        self.signals = HeldSignals()
        # Code may outlive its functions: what was compiled for it goes with the configuration that asked for it.
        weakref.finalize(self, self.cache.drop).atexit = False

    def forget(self) -> None:
        """Forgets every captured version, and every decision to leave a function alone."""
        self.cache.drop(self)

    @property
    def nopython(self) -> bool:
        return self.options.nopython

    @property
    def recompile_limit(self) -> int:
        """The limit that was given; in the place of the default one, what the program's settings say now."""
        asked, given = program_settings().recompile_limit, self.options.recompile_limit
        return given if asked is None or given != _DEFAULT_LIMIT else asked

    @property
    def leave_idle(self) -> bool:
        return self.options.leave_idle


# What runs while a module is imported, finders and decorators among it, nobody asked to compile.
_engine.run_outside(importlib._bootstrap._find_and_load.__code__)  # type: ignore[attr-defined]


def translate_frame(config: Config, function: FunctionType, args: tuple[object, ...]) -> Verdict:
    """The verdict on a frame that no version fits: the engine calls this on a miss."""
    code = function.__code__
    # While the interpreter ends, modules lose what they hold, ours too.
    if is_disabled(function) or state.PROCESS.of_thread.handling or sys.is_finalizing():
        return _engine.SKIP_ONCE
    if is_triton_kernel(function) or not is_captured(code, str(function.__globals__.get("__name__"))):
        return _engine.SKIP_ALWAYS
    # Once only: the next call may come from outside of the transform.
    if not INSIDES.unusable and _is_transformed():
        return _engine.SKIP_ONCE
    location = Location(code.co_filename, code.co_firstlineno, code.co_qualname)
    if program_settings().disabled:
        return _engine.SKIP_ONCE
    versions, inputs = config.cache.state(code), Inputs(function, args)
    due = versions.due(inputs)
    # A version up for review fits all the same: it is used, and reviewed when something may be captured again.
    if due is not None and not stance.is_default():
        return due.stays()
    if due is None and not stance.may_translate(location, lambda: versions.why(inputs)):
        return _engine.SKIP_ONCE
    try:
        with carrying():
            return _verdict_with_notices(config, inputs, location)
    except RecursionError:  # the engine runs the frame as it is
        raise
    except Delivered as delivered:
        arrived = delivered.error
    # A continuation has no ``try`` of the program around its call: the error is raised where the continuation stands.
    except BaseException as error:
        raising = config.continuations.raising(code, error)
        if raising is None:
            raise
        return raising  # what surrounds the place in the user's function handles it
    # Here and not in the handler, where what carried it would be its context.
    raising = config.continuations.raising(code, arrived)
    if raising is None:
        raise arrived
    return raising


def _verdict_with_notices(config: Config, inputs: Inputs, location: Location) -> Verdict:
    """The verdict, whose notices are shown when all is kept.

    Where telling is an error, the next call goes on as this one would have.
    """
    state, notices = config.cache.state(inputs.function.__code__), Waiting()
    if state.decided is not None:
        decided, state.decided = state.decided, None
        return decided
    try:
        with notices.gathered():
            verdict = _verdict(config, inputs, location)
    except BaseException:  # notices come before whatever ends the call, an interrupt too
        notices.show()
        raise
    try:
        notices.tell()
    except Warning:
        if not isinstance(verdict, _engine.GuardedCode):  # which is found again by its guards
            state.decided = verdict
        raise
    return verdict


def _verdict(config: Config, inputs: Inputs, location: Location) -> Verdict:
    """The verdict; errors of ours become a frame that CPython runs, and a record."""
    try:
        _require_insides()
        # One translation of a configuration at a time; two threads would make the same version twice.
        with config.lock.held(), config.signals.held(), state.PROCESS.collection_pause.held():
            return _translate(config, inputs, location)
    except BackendError as error:
        let_through(error)
        if config.nopython or not program_settings().failures_run_eagerly:
            raise
        return _run_eagerly(config, location, error)
    except (Unsupported, RecompileRefused, RecompileLimitHit):
        raise
    except SkipFrame as skip:
        if config.nopython:
            raise Unsupported(skip.reason, skip.location or location) from None
        return _give_up(config, FallbackRecord(location, skip.reason))
    except Exception as error:  # a mistake of ours must never be the user's problem
        let_through(error)
        if isinstance(error, RecursionError) and _is_deep():
            raise  # there is no room left to evaluate anything; the engine runs the frame as it is
        if isinstance(error, RecursionError):
            return _give_up(
                config, FallbackRecord(location, Reason(Kind.NESTING, "what it works on is nested too deep"))
            )
        if config.options.strict:
            raise InternalError(f"capturing {location} failed: {words_of(error)}") from error
        reason = Reason(Kind.INTERNAL_ERROR, words_of(error), "please report it; the frame runs in CPython")
        record = FallbackRecord(location, reason, _traceback())
        inform(
            CaptureWarning(f"{location}: {reason.explanation} (inside capture; the function runs uncompiled)"), location
        )
        return _give_up(config, record)


def _require_insides() -> None:
    if INSIDES.unusable:
        _say_once(INSIDES.unusable)
        INSIDES.require_essentials()


@functools.cache
def _say_once(sentence: str) -> None:
    inform(CaptureWarning(sentence))


def _is_deep() -> bool:
    """True if the program itself has used up most of Python's stack."""
    return stack_depth() > sys.getrecursionlimit() // 2


def _traceback() -> str:
    try:
        return traceback.format_exc()
    except Exception:  # noqa: BLE001 - a program may well have broken what this is made of, ``builtins.len`` for one
        return ""


def _is_transformed() -> bool:
    """True if tensors or graphs are not what they seem, or somebody is to see each operation.

    That is inside ``vmap`` and ``grad``, with gradients in forward mode, under somebody's mode, in the
    ``__torch_dispatch__`` of a subclass, which is below autograd, while ``torch.jit`` traces, and where the program is
    shown each tensor that autograd keeps, of which compiled code keeps others.  Graphs are modules, too: what they are
    may be told by code of the program's that reads all attributes of modules.
    """
    if has_code_for(torch.nn.Module, "__getattribute__"):
        return True
    if maybe_current_level() is not None or len_torch_dispatch_stack() > 0:
        return True
    if dispatch_tls_is_dispatch_key_excluded(DispatchKey.PythonTLSSnapshot):
        return True
    if get_tracing_state and get_tracing_state() is not None:  # TorchScript's tracer is to see each operator
        return True
    if saved_tensors.are_shown() or forward_mode.is_open():
        return True
    return default_devices.is_overridden()


def _give_up(config: Config, record: FallbackRecord) -> Verdict:
    """Leaves a code object to CPython for good, with a record."""
    config.log.add(record)
    return _engine.SKIP_ALWAYS


def _run_eagerly(config: Config, location: Location, error: BackendError) -> Verdict:
    reason = Reason(Kind.BACKEND, str(error), "its own exception says more where failures are not suppressed")
    inform(CaptureWarning(f"{location}: {error} (the function runs uncompiled)"), location)
    return _give_up(config, FallbackRecord(location, reason))


def _translate(config: Config, inputs: Inputs, location: Location) -> Verdict:
    """The verdict of the cache, the store, or a translation, in this order."""
    code = inputs.function.__code__
    state = config.cache.state(code)
    due = state.due(inputs)
    if due is not None and due.once:
        state.drop(due, code, config)  # it fits a second time: its graph is worth compiling after all
    elif due is not None:
        return config.leanness.review(code, due, location)
    if (in_cpython := config.leanness.left(code)) is not None:
        return in_cpython
    known = state.fitting(inputs)
    if known is not None:  # another thread was faster; or this one was interrupted before the engine had it
        return _engine.SKIP_ONCE if known in _engine.entries(code) else known
    if (stored := _taken_up(config, inputs, state, due, location)) is not None:
        return stored
    allowance = config.idleness.allowance(inputs)
    if due is None and (sentence := state.why(inputs)) is not None:
        if state.is_compiled() or (state.reaches(config.recompile_limit) and not state.is_idle()):
            _note_recompilation(config, location, state, sentence)
        if state.reaches(config.recompile_limit) and not _may_open(config, state):
            return _too_many(config, location, state)
        if config.options.dynamic is not False and allowance is None:
            state.learn(inputs, config.options)
    state.learnt.learn(all_sizes=config.options.dynamic is True)
    try:
        made = _made_of_what_stays(lambda: translate(config, inputs, state.learnt, allowance, due is not None))
    except SizesFixed:
        return _too_many(config, location, state)
    except LeftIdle as left:
        return _leave_idle(config, FallbackRecord(location, left.reason), state)
    finally:
        if state.learnt.defines_classes:  # nobody should meet a dummy among the classes that a class knows
            gc.collect(0)
    if made.graph is not None:
        config.idleness.computes(inputs.function)
    guards = _engine.Guards(*to_spec(made.guards))
    if made.recheck is not None:
        made.recheck.guards = guards
    with looking():  # from here on the engine knows the tensors by their numbers: it asks nothing that a mode would see
        holds = guards.check(inputs.function, inputs.args)
    entry = _engine.GuardedCode(made.code, guards, config)
    piece = config.leanness.piece(code, made, entry)
    state.add(Version(entry, without_objects(made.guards), piece, made.once, made.changed))
    if not holds and _is_outdated(made, guards, inputs):  # it is for calls to come
        _engine.add_entry(code, entry)
        return _engine.SKIP_ONCE
    if config.storing is not None and holds:
        config.storing.keep(inputs, state, made, guards, location)
    return entry


_ONCE = "run by CPython once: its own effects change what it relies on, as another process found"


def _taken_up(
    config: Config, inputs: Inputs, state: CodeState, due: Version | None, location: Location
) -> Verdict | None:
    """The version that another process captured for such a call; None where there is none, or one is due here."""
    if config.storing is None:
        return None
    config.storing.note_key(inputs, state)
    if due is not None or state.reaches(config.recompile_limit):
        return None
    found = config.storing.take_up(inputs, state, location)
    if found is None:
        return None
    taken, guards = found
    if taken.operators:
        config.idleness.computes(inputs.function)
    entry = _engine.GuardedCode(taken.code, guards, config)
    piece = config.leanness.reviewed_later(Piece(taken.operators, taken.places, taken.breaks), entry)
    state.add(Version(entry, without_objects(taken.guards), piece, taken.once, taken.changed))
    if taken.broke is not None:
        config.log.add(taken.broke)
    if taken.once:
        config.log.add(SingleRunRecord(location, Reason(Kind.OWN_EFFECTS, _ONCE)))
    return entry


def _made_of_what_stays(make: Callable[[], Translation]) -> Translation:
    """The translation, tried again where another thread may have written while it was made.

    What is read then may be neither this nor that, which no rule expects.  A mistake of ours comes again.
    """
    for _ in range(_TRIES - 1):
        try:
            return make()
        except (BackendError, Unsupported, Signal, SizesFixed, RecursionError):
            raise
        except Exception as error:  # a value that is half of another thread's writing fails rules in any way
            let_through(error)
            if not _engine.has_other_threads():
                raise
    return make()


def _is_outdated(made: Translation, guards: _engine.Guards, inputs: Inputs) -> bool:
    """True if another thread changed what was read while it was captured; not where each read gives another object."""
    failed = guards.first_failure(inputs.function, inputs.args) if _engine.has_other_threads() else None
    guard = None if failed is None else made.guards[failed]
    if guard is None or guard.kind in RELATIONS or guard.source is None:
        return False
    try:
        return guard.source.read(inputs) is guard.source.read(inputs)
    except (LookupError, AttributeError):  # it is gone
        return True


def _note_recompilation(config: Config, location: Location, state: CodeState, sentence: str) -> None:
    asked = program_settings()
    if asked.recompiling_is_an_error:
        raise RecompileRefused(f"{location} would be captured again, which is an error by the settings: {sentence}")
    if asked.limit_is_an_error and state.reaches(config.recompile_limit):
        raise RecompileLimitHit(f"{location}: {too_many(location, state, config.recompile_limit).reason.explanation}")
    config.log.add(RecompileRecord(location, sentence))


def _leave_idle(config: Config, record: FallbackRecord, state: CodeState) -> Verdict:
    """Leaves this call to CPython, or all calls once there were many."""
    state.left_idle += 1
    if state.left_idle == 1:
        config.log.add(record)
    return _engine.SKIP_ALWAYS if is_left_for_good(state.left_idle) else _engine.SKIP_ONCE


def _may_open(config: Config, state: CodeState) -> bool:
    """Past the limit there may be one version more, in which CPython runs what would take a size for a constant."""
    known = state.learnt.assumptions
    if state.is_idle() or known.open_only or config.nopython or config.options.dynamic is False or not known.symbolic:
        return False
    state.learnt.learn(open_only=True)
    return True


def _too_many(config: Config, location: Location, state: CodeState) -> Verdict:
    record = too_many(location, state, config.recompile_limit)
    if not state.is_idle():
        inform(CaptureWarning(f"{location}: {record.reason.explanation}"), location)
    return _give_up(config, record)


# -- tensors in C ------------------------------------------------------------------------------------------------


_SYMBOLS = (
    "aoti_torch_get_dtype",
    "aoti_torch_get_sizes",
    "aoti_torch_get_strides",
    "aoti_torch_get_dim",
    "aoti_torch_get_device_type",
    "aoti_torch_get_device_index",
    "aoti_torch_get_layout",
    "aoti_torch_get_data_ptr",
    "aoti_torch_get_storage_offset",
    "aoti_torch_get_storage_size",
    "aoti_torch_layout_strided",
)
_METHODS = {
    "requires_grad": "_ZNK3c1010TensorImpl13requires_gradEv",
    "is_neg": "_ZN2at6native6is_negERKNS_6TensorE",
    "is_conj": "_ZN2at6native7is_conjERKNS_6TensorE",
    "_is_zerotensor": "_ZN2at6native14_is_zerotensorERKNS_6TensorE",
}
"""Functions of C that ask nobody, unlike attributes and methods in Python, which the program may answer."""


def bind_tensors() -> bool:
    """Show the engine where a tensor object keeps its tensor, and torch's C functions that read one."""
    addresses = _addresses()
    return _engine.bind_tensors(_payload_offset(), addresses, (torch.Tensor, torch.nn.Parameter))


def _addresses() -> dict[str, int]:
    """The addresses of torch's functions, of those that this release has."""
    library = ctypes.CDLL(os.path.join(TORCH, "lib", "libtorch_cpu.so"))
    found = {}
    for name in _SYMBOLS:
        symbol = getattr(library, name, None)
        if symbol is not None:
            found[name] = ctypes.cast(symbol, ctypes.c_void_p).value or 0
    for name, mangled in _METHODS.items():
        if (method := getattr(library, mangled, None)) is not None:
            found[name] = ctypes.cast(method, ctypes.c_void_p).value or 0
    return found


def _payload_offset() -> int | None:
    """The place in a tensor's Python object of the word that ``_cdata`` tells, where all samples agree on one."""
    samples: list[torch.Tensor] = [
        torch.empty(1),
        torch.empty(2, 3, dtype=torch.float64),
        torch.nn.Parameter(torch.empty(1)),
    ]
    candidates = set.intersection(*(set(_words_equal_to_cdata(tensor)) for tensor in samples))
    return min(candidates) if candidates else None


def _words_equal_to_cdata(tensor: torch.Tensor) -> Iterable[int]:
    """The offsets in a tensor's Python object at which there is the address of its tensor."""
    size = type(tensor).__basicsize__ // 8
    words = (ctypes.c_size_t * size).from_address(id(tensor))
    return (index * 8 for index in range(2, size) if words[index] == cdata_of(tensor))


def install() -> None:
    """Tells the engine, once, at import, whom to ask."""
    if not INSIDES.unusable:
        bind_tensors()
    if set_eval_frame:
        _engine.set_peer_switch(set_eval_frame)
    _engine.set_translator(translate_frame)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_engine.forget_other_threads)
        os.register_at_fork(after_in_child=lambda: state.PROCESS.collection_pause.in_child())
        os.register_at_fork(after_in_child=lambda: state.PROCESS.once_only.in_child())
