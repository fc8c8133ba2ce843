"""A frame's evaluation from the start to the end that holds: what is found out on the way may ask for a new start."""

from __future__ import annotations

from capture.graph import quiet
from capture.machine import Machine
from capture.options import Options
from capture.outcomes import NeedLeaves, NeedSymbols, Returned, StopEarlier, Stopped, Varying
from capture.signals import HeldSignals
from capture.sources import Inputs


def evaluate(
    inputs: Inputs, varying: Varying, forced: dict[int, Stopped], options: Options, signals: HeldSignals
) -> tuple[Machine, Returned | Stopped]:
    """Evaluate a frame.  A break inside a callee is a break of the root at the call, found out in a second run.

    ``forced`` are the steps of the root that CPython has to take; those found out are added.
    """
    while True:
        machine = Machine(inputs, varying, forced, options, signals)
        finished = False
        try:
            with quiet():
                outcome = machine.run_root()
            finished = True
            return machine, outcome
        except StopEarlier as earlier:
            forced[earlier.stopped.step] = earlier.stopped
        except (NeedSymbols, NeedLeaves):
            continue
        finally:
            if not finished:
                machine.balance()
                machine.let_go()
