"""A captured function and what is known of it for each signature it was called with.

State only; what happens to it is decided by the manager.  One function's inputs and outputs are judged together: how
often each was found in the way says which are copied from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any

from .driver import Boxed
from .errors import Refusal, Refused
from .gain import Trial
from .inputs import Stillness
from .node import Recording
from .options import Options
from .storage import CopyPolicy, Held

MOST_REST = 64  # calls
"""The most calls that a case runs as they are before recordings are tried again."""


class Case:
    """One function called with one signature.  It is the lender of what its recordings hand out."""

    def __init__(self, options: Options) -> None:
        self.warm_ups = 0
        self.refusal: Refusal | None = None
        self.recordings: list[Recording] = []
        self.outputs = CopyPolicy(options)
        self.inputs = CopyPolicy(options)
        self.stillness = Stillness()
        self._watched: list[tuple[int, Held]] = []
        self._expected_held: set[int] = set()
        self.trial = Trial(options.gain_samples) if options.gain_samples else None  # until it is over
        self.misses = 0
        self._rest = 0

    def found_held(self, slot: int, nbytes: int, by_itself: bool) -> bool:
        """Notes an output that was still held when its memory was wanted; true if it is copied out from now on, for the
        first time.

        Two recordings that take turns are best where a function's last result is held during its next call.  Recording
        one function around another's results goes on and on: what follows on it has to be recorded anew, too.
        """
        return self.outputs.stood_in_the_way(slot, nbytes) if by_itself else self.outputs.copy(slot)

    def warmed_up(self, results: Iterable[tuple[int, Held]]) -> None:
        """Takes note of the results of a warm-up call, by their position."""
        self._watched = list(results)

    def look_what_is_held(self) -> None:
        """Notes which of the warm-up's results are held while another function is recorded: they are copied out from
        the start, because in the pool they would be in the way at each replay."""
        self._expected_held |= {position for position, held in self._watched if held.alive()}

    def recorded(self, recording: Recording) -> None:
        """Adds a recording to the case."""
        self.recordings.append(recording)
        self._watched = []
        for slot, loan in enumerate(recording.loans):
            if self._expected_held.intersection(loan.positions):
                self.outputs.copy(slot)

    def missed(self) -> None:
        """Notes that no recording fitted and none could be made: looking again and again would make calls slower than
        plain ones."""
        self.misses += 1
        self._rest = min(2**self.misses, MOST_REST)

    def rests(self) -> bool:
        """True if this call is to be run as it is, without looking."""
        if self._rest == 0:
            return False
        self._rest -= 1
        return True


class Function:
    """A callable with its options and its cases.

    ``unguarded`` are the inputs that tell cases apart; None stands for all of them.  ``tell`` hears of its refusals.
    """

    def __init__(
        self,
        fn: Boxed,
        options: Options,
        static: Collection[int],
        changed: Collection[int],
        name: str,
        unguarded: Sequence[int] | None = None,
        tell: Callable[[Refused], None] | None = None,
    ) -> None:
        self.fn = fn
        self.name = name
        self.options = options
        self.static = static
        self.changed = changed
        self.tell = tell
        self._unguarded = unguarded
        self.cases: dict[Hashable, Case] = {}
        self.given_up = False  # no call of it can be recorded, so none needs to be looked at

    def unguarded_of(self, inputs: Sequence[object]) -> Sequence[Any]:
        """The inputs whose layouts and values must be looked at, because no guard does."""
        return inputs if self._unguarded is None else [inputs[index] for index in self._unguarded]

    def give_up(self, case: Case, reason: Refusal) -> None:
        """Calls of this case run as they are from now on; so do all, where nothing tells cases apart."""
        case.refusal = reason
        self.given_up = self._unguarded == ()

    def try_in_another_pool(self) -> None:
        """Starts cases anew that were given up because of the pool.  Whatever the function itself did would cost the
        other pool too."""
        for signature in [of for of, case in self.cases.items() if case.refusal is Refusal.POOL_DISTURBED]:
            del self.cases[signature]
        self.given_up = self._unguarded == () and any(case.refusal for case in self.cases.values())

    def forget(self) -> None:
        """Starts anew.  A case may live on as the lender of what is held; its recordings do not."""
        for case in self.cases.values():
            case.recordings.clear()
        self.cases.clear()
        self.given_up = False

    def recordings(self) -> int:
        """The number of its graphs, over all cases."""
        return sum(len(case.recordings) for case in self.cases.values())

    def case(self, signature: Hashable) -> Case | None:
        """The case of this signature; None for a new one when there is no room for its first recording."""
        known = self.cases.get(signature)
        if known is None and max(self.recordings(), len(self.cases)) < self.options.recordings_per_function:
            known = self.cases[signature] = Case(self.options)
        return known
