"""A frame's evaluation from the start to the end that holds: what is found out on the way may ask for a new start."""

from __future__ import annotations

from capture.evaluator.idle_frames import Allowance, insist_on_some, most_idle_steps, spend
from capture.evaluator.machine import Machine
from capture.evaluator.outcomes import NeedLeaves, NeedSymbols, Returned, StopEarlier, Stopped, Varying
from capture.guards.sources import Inputs
from capture.options import Options
from capture.recording.graph import quiet
from capture.signals import HeldSignals


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
