"""A frame's evaluation from the start to the end that holds: what is found out on the way may ask for a new start."""

from __future__ import annotations

from capture.graph import quiet
from capture.idleness import Allowance, insist_on_some, most_idle_steps, spend
from capture.machine import Machine
from capture.options import Options
from capture.outcomes import NeedLeaves, NeedSymbols, Returned, StopEarlier, Stopped, Varying
from capture.signals import HeldSignals
from capture.sources import Inputs


def evaluate(
    inputs: Inputs,
    varying: Varying,
    forced: dict[int, Stopped],
    options: Options,
    signals: HeldSignals,
    allowance: Allowance | None = None,
) -> tuple[Machine, Returned | Stopped]:
    """Evaluate a frame.  A break inside a callee is a break of the root at the call, found out in a second run.

    ``forced`` are the steps of the root that CPython has to take; those found out are added.
    """
    while True:
        insist_on_some(allowance)
        machine = Machine(inputs, varying, forced, options, signals)
        machine.most_idle = most_idle_steps(allowance)
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
            spend(allowance, machine.steps)
            if not finished:
                machine.balance()
                machine.let_go()
