"""Random numbers in kernels: the same on every target and at every vector width, of seed and offset alone."""

import pytest
import torch

from inductor.ir.expr import Const, IndexValue, Load, apply
from inductor.ir.index import Index, loop_variable
from inductor.ir.kernel import Store

F32, I64 = torch.float32, torch.int64


def test_random_numbers_depend_on_seed_and_offset_alone(run, kernel_of):
    i = loop_variable("i", 3000)
    at = Index.of(i)
    seed = Load("seed", Index.of(0), I64)
    offset = IndexValue(at, I64)
    body = [
        Store("u", at, apply("rand", seed, offset, dtype=F32)),
        Store("n", at, apply("randn", seed, offset, dtype=F32)),
        Store("k", at, apply("randint64", seed, offset, Const(-3, I64), Const(4, I64), dtype=I64)),
    ]
    kernel = kernel_of(
        [i],
        [([], body)],
        ("seed", I64, 1, "in"),
        ("u", F32, 3000, "out"),
        ("n", F32, 3000, "out"),
        ("k", I64, 3000, "out"),
    )
    found = run(
        kernel,
        {"seed": torch.tensor([42]), "u": torch.empty(3000), "n": torch.empty(3000), "k": torch.empty(3000, dtype=I64)},
    )
    assert abs(found["u"].mean() - 0.5) < 0.02
    assert found["u"].min() >= 0
    assert found["u"].max() < 1
    assert abs(found["n"].std() - 1) < 0.05
    assert set(found["k"].tolist()) == set(range(-3, 4))
    # Known answer of Philox 4x32-10 for key 42 and counter 0, so that no width or target may differ.
    assert found["u"][:2].tolist() == pytest.approx(_philox_uniform(42, [0, 1]))


def _philox_uniform(seed, offsets):
    def first_word(offset):
        c, k = [offset & 0xFFFFFFFF, offset >> 32, 0, 0], [seed & 0xFFFFFFFF, seed >> 32]
        for _ in range(10):
            a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        return c[0]

    return [(first_word(offset) >> 8) * 2.0**-24 for offset in offsets]
