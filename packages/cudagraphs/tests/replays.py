"""``python packages/cudagraphs/tests/replays.py``: what a replay costs around its launch, on torch's CPU tensors.

The graph does nothing, so what is timed is this package: microseconds per call, the least of several turns.  Figures
compare with one another only.
"""

import time
from itertools import product

import torch

from cudagraphs import Manager, Options, capture_compiled, capture_on
from cudagraphs.emulated import EmulatedDriver


class Idle(EmulatedDriver):
    """Launching costs no more than copying the inputs."""

    def launch(self, graph, sources):
        graph.fill(sources)


def microseconds(call, calls=2000, turns=7):
    fastest = float("inf")
    for _ in range(turns):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        fastest = min(fastest, time.perf_counter() - start)
    return 1e6 * fastest / calls


def still(count, outputs, wrap):
    """``count`` inputs that lie still."""
    inputs = [torch.ones(8) for _ in range(count)]
    captured = wrap(lambda *values: [value + 1 for value in values[:outputs]], inputs)
    return lambda: captured([*inputs])


def moving(count, outputs, wrap):
    """``count`` inputs that are others at every call."""
    rounds = [[torch.ones(8) for _ in range(count)] for _ in range(4)]
    captured = wrap(lambda *values: [value + 1 for value in values[:outputs]], rounds[0])
    turn = iter(range(1 << 62))
    return lambda: captured([*rounds[next(turn) % 4]])


def alone(manager, fn, inputs, options):
    return capture_on(manager, fn, inputs, options=options).call


def guarded(manager, fn, inputs, options):
    """As the compiler captures: layouts are the business of its own guards."""
    graph = torch.fx.GraphModule({}, torch.fx.Graph())
    captured = capture_compiled(lambda values: fn(*values), graph, inputs, options=options, where=manager)
    captured._function._unguarded = ()  # the device is the CPU here, whose inputs would all be looked at
    return captured.call


def main(calls=2000, turns=7):
    options = Options(warmups=1, gain_samples=0)
    with torch.no_grad():
        for (count, outputs), kind, capture in product(
            [(1, 1), (200, 1), (200, 200)], (still, moving), (alone, guarded)
        ):
            manager = Manager(Idle())
            call = kind(count, outputs, lambda fn, inputs: capture(manager, fn, inputs, options))
            for _ in range(5):
                call()
            assert (manager.report().plain, manager.report().recorded) == (0, 1)
            what = f"{count} inputs ({kind.__name__}), {outputs} outputs, {capture.__name__}"
            print(f"{what:50} {microseconds(call, calls, turns):9.1f} us")


if __name__ == "__main__":
    main()
