"""The manager of one device: its pool, its tree, its loans, and the course of a call.

A call is answered by a replay if a recording fits, by a new recording if there is room for one, and by the plain
function otherwise.  The last is always right, so every doubt ends there, with a reason in the report.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from .driver import Driver, State
from .eligible import check_inputs
from .errors import CannotRecord, Refusal, Refused
from .function import Case, Function
from .gain import Trial
from .generation import Steps
from .inputs import plan_inputs, separates
from .node import Recording, flattened
from .poison import poison
from .record import Request, record
from .replay import replay
from .report import Journal, Report
from .storage import Ledger, Lent
from .tree import Tree, choose, obstacle

RELEASED = "this tensor was made by a CUDA graph in an earlier step, and step_begin(release=True) gave its memory back"


@dataclass(frozen=True, slots=True)
class _Plainly:
    """The answer that a call is to be run as it is; as a warm-up of a case if there is one."""

    warms_up: Case | None = None


class Manager:
    """Everything that is recorded on one device; calls on it are serialised."""

    def __init__(self, driver: Driver) -> None:
        self.tree = Tree()
        self._driver = driver
        self._ledger = Ledger()
        self._steps = Steps()
        self._journal = Journal()
        self._lock = threading.RLock()
        self._state: State | None = None  # of the allocator, which has whatever is alive now, and perhaps more
        self._recorded = 0
        self.sealed = False  # once the allocator's state is in doubt, recordings are replayed but none is made
        self._functions: weakref.WeakSet[Function] = weakref.WeakSet()
        self._left: list[dict[Hashable, Case]] = []  # what functions that are gone had

    def adopt(self, function: Function, refusal: Refused | None = None) -> None:
        """Takes a function in; ``refusal`` if it is known already that none of its calls can be recorded."""
        with self._lock:
            self._clear_away()
        self._functions.add(function)
        # Only noted when it goes, which may be in the middle of anything.
        weakref.finalize(function, self._left.append, function.cases).atexit = False
        if refusal is not None:
            self._note(function, refusal)

    def reset(self) -> None:
        """Forgets all recordings.  Tensors in callers' hands stay protected by the ledger."""
        with self._lock:
            self._clear_away()
            self.tree = Tree()
            self._steps.begin()
            for function in self._functions:
                function.forget()

    def run(self, function: Function, inputs: list[object]) -> Any:
        """Answers one call of ``function``, which may empty the list."""
        if self._driver.recording():  # a captured function inside another is recorded as part of it
            return function.fn(inputs)
        with self._lock:
            answer = self._answer(function, inputs)
        # Plain calls run without the lock: theirs may wait for another thread that has calls of its own.
        if not isinstance(answer, _Plainly):
            return answer
        if answer.warms_up is None:
            return function.fn(inputs)
        return self._warm_up_now(function, answer.warms_up, inputs)

    def step_begin(self, *, release: bool = False) -> None:
        """Starts a new step.  ``release`` gives back what earlier steps made: tensors still held raise when used."""
        with self._lock:
            self._steps.begin()
            released = self._ledger.clear() if release else []
            for lent in released:
                lent.forbid(RELEASED)
            self._journal.counts["released"] += len(released)

    def report(self) -> Report:
        """The counts and refusals so far."""
        return self._journal.report(pool_bytes=self._pool_bytes(), steps=self._steps.number)

    def poison(self) -> None:
        """Fills the memory of the pool that nobody holds: whoever reads it by mistake finds NaN."""
        with self._lock:
            poison(self._driver, [lent.block for lent in self._ledger.live()])

    def live(self) -> list[Lent]:
        """The pool memory that is in the hands of callers now."""
        return self._ledger.live()

    # Ways to answer a call.

    def _answer(self, function: Function, inputs: list[object]) -> Any:
        case = function.case(self._driver.signature(function.unguarded_of(inputs)))
        if case is None:
            return self._plainly(function, Refusal.TOO_MANY_RECORDINGS)
        if case.refusal is not None or case.rests():
            return self._plainly(function)
        if case.warm_ups < function.options.warmups:
            return self._warm_up(function, case, inputs)
        if case.trial is not None and case.recordings:
            return self._on_trial(function, case, case.trial, inputs)
        return self._replay_or_record(function, case, inputs)

    def _plainly(self, function: Function, reason: Refusal | None = None) -> _Plainly:
        if reason is not None:
            self._note(function, Refused(function.name, reason))
        self._journal.counts["plain"] += 1
        return _Plainly()

    def _warm_up(self, function: Function, case: Case, inputs: Sequence[object]) -> _Plainly:
        """A plain call outside of the pool: whatever a function keeps from its first calls must outlive every
        replay."""
        try:
            check_inputs(self._driver, inputs)
        except CannotRecord as error:
            return self._refuse(function, case, error)
        case.stillness.see(self._driver, inputs)
        case.warm_ups += 1
        self._journal.counts["warmups"] += 1
        return _Plainly(case)

    def _warm_up_now(self, function: Function, case: Case, inputs: list[object]) -> Any:
        trial = case.trial
        if trial is not None and (case.warm_ups > 1 or function.options.warmups == 1):
            took, result = self._driver.timed(lambda: function.fn(inputs))
            trial.plain.append(took)
        else:
            result = function.fn(inputs)
        _, values = flattened(result)
        tensors = ((at, v) for at, v in enumerate(values) if self._driver.is_tensor(v) and self._driver.on_device(v))
        case.warmed_up((at, self._driver.hold_weakly(tensor)) for at, tensor in tensors)
        return result

    def _on_trial(self, function: Function, case: Case, trial: Trial, inputs: list[object]) -> Any:
        """The call answered as always, but timed with all that is done around a replay, if it comes to one."""
        recorded = self._recorded
        took, answer = self._driver.timed(lambda: self._replay_or_record(function, case, inputs))
        if isinstance(answer, _Plainly) or self._recorded != recorded:
            return answer
        trial.replayed.append(took)
        if trial.over():
            case.trial = None
            if not trial.pays():
                self._drop(case, case.recordings)
                function.give_up(case, Refusal.NO_GAIN)
                self._note(function, Refused(function.name, Refusal.NO_GAIN, str(trial)))
        return answer

    def _replay_or_record(self, function: Function, case: Case, inputs: list[object]) -> Any:
        live = self._ledger.live()
        position = self._steps.position(live)
        recording = choose(case.recordings, position, live, inputs)
        if recording is None:
            if self._learn(function, case, inputs, live):
                return self._plainly(function)
            try:
                self._check_room(function)
                recording = self._record(function, case, inputs, live, position)
            except CannotRecord as error:
                return self._refuse(function, case, error)
        # Aliases among inputs may differ from call to call, so this is asked at each.
        if recording.inputs.changed and separates(self._driver, recording.inputs, inputs):
            return self._plainly(function, Refusal.OVERLAPPING_INPUTS)
        try:
            return self._replay(case, recording, inputs)
        except CannotRecord as error:  # the device would not take the inputs of this call
            self._drop(case, [recording])
            return self._refuse(function, case, error)

    def _replay(self, case: Case, recording: Recording, inputs: Sequence[object]) -> Any:
        copied = case.outputs.copied
        result = replay(self._driver, recording, inputs, copied)
        self._ledger.lend(recording.lends)
        case.misses = 0
        self._state = recording.state
        self._steps.ran(recording)
        self._journal.counts["replayed"] += 1
        if copied:
            sizes = [loan.block.nbytes for slot, loan in enumerate(recording.loans) if slot in copied]
            self._journal.counts.update(copied_out=len(sizes), copied_out_bytes=sum(sizes))
        return result

    def _record(
        self, function: Function, case: Case, inputs: Sequence[object], live: Sequence[Lent], position: Recording | None
    ) -> Recording:
        lent = {one.block.address for one in live}
        if not case.recordings:
            case.stillness.see(self._driver, inputs)
        request = Request(
            function=function.name,
            fn=function.fn,
            inputs=inputs,
            plan=plan_inputs(self._driver, inputs, {*function.static, *case.stillness.still}, lent, case.inputs.copied),
            declared_changed=function.changed,
            protected={one.block.address: one.block.nbytes for one in live},
            parent=position,
            number=self._recorded + 1,
            lender=case,
        )
        owners = self._driver.occupy(self._state, [one.block for one in live])
        try:
            recording = record(self._driver, request)
        except RuntimeError as error:  # out of memory, say; errors of the function itself are dealt with in record
            raise CannotRecord(Refusal.DEVICE_FAILED, str(error).split("\n", 1)[0]) from None
        finally:
            del owners  # idle again: the ledger alone protects what is lent
        self._recorded += 1
        self._journal.counts["recorded"] += 1
        self.tree.add(recording)
        case.recorded(recording)
        # Their results may be held just now, and would then be in the way of this recording's memory.
        for other in {case for function in self._functions for case in function.cases.values()} - {case}:
            other.look_what_is_held()
        return recording

    def _clear_away(self) -> None:
        """Lets go of the recordings of functions that are gone."""
        while self._left:
            for case in self._left.pop().values():
                self._drop(case, case.recordings)

    # Judgements.

    def _refuse(self, function: Function, case: Case, error: CannotRecord) -> _Plainly:
        """The call runs as it is; the case is given up unless some of its recordings may fit again."""
        if error.reason is Refusal.POOL_DISTURBED:
            self.sealed = True
        if case.recordings:
            case.missed()
        else:
            function.give_up(case, error.reason)
        self._note(function, error.refused(function.name))
        return self._plainly(function)

    def _learn(self, function: Function, case: Case, inputs: list[object], live: Sequence[Lent]) -> bool:
        """Has everything copied, sooner or later, that keeps recordings from being used, so that recording anew comes
        to an end.  True if the obstacle is likely to be gone at the next call: then this one is not worth a
        recording."""
        found = obstacle(self._driver, case.recordings, live, inputs)
        alone = self.tree.are_leaves(case.recordings)
        passing = [lent.stood_in_the_way(alone and lent.lender is case) for lent in found.in_the_way]
        passing += [self._moved(function, case, index, inputs[index], live) for index in found.moved]
        return bool(passing) and all(passing)

    def _moved(self, function: Function, case: Case, index: int, value: object, live: Sequence[Lent]) -> bool:
        """Decides about an input that has another address; true if the next call is likely to be answered otherwise."""
        block = self._driver.block(value)
        if any(lent.block == block for lent in live):  # what made it was recorded anew, and so must this be
            case.inputs.stood_in_the_way(index, block.nbytes)
            return False
        if index in case.recordings[-1].inputs.lent:  # what made it has run as it is for once
            return not case.inputs.stood_in_the_way(index, block.nbytes)
        if index in function.static:
            case.inputs.stood_in_the_way(index, block.nbytes)
        else:  # nobody said that it lies still; it only did so for a while
            case.inputs.copy(index)
        return False

    def _check_room(self, function: Function) -> None:
        self._clear_away()
        limit = function.options.pool_bytes
        if function.recordings() >= function.options.recordings_per_function:
            raise CannotRecord(Refusal.TOO_MANY_RECORDINGS, f"{function.recordings()} of them")
        if limit is not None and self._pool_bytes() >= limit:
            raise CannotRecord(Refusal.POOL_FULL, f"{self._pool_bytes()} of {limit} bytes")
        if self.sealed:
            raise CannotRecord(Refusal.POOL_DISTURBED)
        if self._driver.occupied():
            gc.collect()
            if held := self._driver.occupied():
                raise CannotRecord(Refusal.POOL_DISTURBED, f"{len(held)} blocks")

    def _pool_bytes(self) -> int:
        return sum(segment.nbytes for segment in self._driver.segments())

    def _drop(self, case: Case, recordings: Sequence[Recording]) -> None:
        self.tree.remove(recordings)
        case.recordings = [kept for kept in case.recordings if kept not in recordings]

    def _note(self, function: Function, refused: Refused) -> None:
        """Keeps a refusal, and tells it once to whoever captured the function."""
        if self._journal.refuse(refused) and function.tell is not None:
            function.tell(refused)
