"""Arguments that share memory in one way or another, of sizes that vary, and are written to: as in eager,
and compiled."""

import pytest
import torch

import compile_api

WINDOWS = {
    "halves": lambda n, base: (base[:n], base[n : 2 * n]),
    "the same": lambda n, base: (base[:n], base[:n]),
    "interleaved": lambda n, base: (base[: 2 * n : 2], base[1 : 2 * n : 2]),
    "a gap": lambda n, base: (base[2 : n + 2], base[2 * n + 3 : 3 * n + 3]),
    "columns": lambda n, base: base[: 2 * n].view(n, 2).unbind(1),
    "apart": lambda n, base: (base[:n], base[n : 2 * n].clone()),
}


def both(a, b):
    a.add_(b)
    b.mul_(2)
    return a.sum() + b.sum()


def shifted(a, b):
    """Eager refuses most of what writes to such ones."""
    a[1:].mul_(2)
    return a[1:] + b[:-1]


def one(a, b):
    b.sub_(1)
    return a * b


CASES = [(way, other) for place, way in enumerate(WINDOWS) for other in [way, list(WINDOWS)[place - 2]]]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("program", [both, one, shifted])
def test_results_and_memory_are_eagers(program, backend):
    for way, other in CASES[:: 2 if backend == "aot_eager" else 5]:
        compile_api.reset()
        compiled = compile_api.compile(program, backend=backend)
        for n, made in ((5, way), (7, other), (9, way)):
            ours, eagers = torch.arange(40.0), torch.arange(40.0)
            result, wanted = compiled(*WINDOWS[made](n, ours)), program(*WINDOWS[made](n, eagers))
            torch.testing.assert_close((result, ours), (wanted, eagers))
        report = compile_api.report(compiled)
        assert report.captured, (way, other)
        assert not report.left_alone, (way, other)
