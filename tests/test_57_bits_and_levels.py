"""Tensors whose memory does not show what they are, after plain ones of the same sizes: eager's results, in every
backend."""

import itertools

import pytest
import torch
import torch.autograd.forward_ad as forward_ad

import compile_api

DENSE = torch.tensor([[0.5, 0.0, 2.0], [0.0, -1.0, 0.0]])
COMPLEX = torch.complex(DENSE, DENSE - 1)
PAIRS = {
    "negated": (DENSE, DENSE._neg_view()),
    "zeros without memory": (DENSE, torch._efficientzerotensor((2, 3))),
    "conjugate": (COMPLEX, COMPLEX.conj()),
    "complex zeros without memory": (COMPLEX, torch._efficientzerotensor((2, 3), dtype=torch.complex64)),
    "sparse": (DENSE, DENSE.to_sparse()),
    "oneDNN": (DENSE, DENSE.to_mkldnn()),
    "meta": (DENSE, DENSE.to("meta")),
}
STRIDED = ("conjugate", "meta")
"""Those that graphs may hold."""
FUNCTIONS = {
    "twice": lambda t: t + t,
    "real": lambda t: torch.view_as_real(t.resolve_conj()) * 2 if t.is_complex() else t * 2,
    "thrice": lambda t: t * 3,
    "a clone": lambda t: t.clone(),
}


def plain(value):
    if value.device.type == "meta":
        return value.shape, value.dtype
    return (value + 0 if value._is_zerotensor() else value).to_dense().tolist()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("pair", PAIRS)
def test_what_comes_after_a_plain_tensor_is_told_from_it(pair, function, backend):
    compiled = compile_api.compile(function, backend=backend)
    for tensor in (*PAIRS[pair], *reversed(PAIRS[pair])):
        assert plain(compiled(tensor)) == plain(function(tensor))
    report = compile_api.report(compiled)
    assert (len(report.captured), not report.breaks) == ((2, True) if pair in STRIDED else (1, False))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_gradients_in_forward_mode_are_not_dropped(backend):
    compiled = compile_api.compile(lambda x: x * x, backend=backend, fullgraph=True)
    for _ in range(2):
        assert compiled(torch.ones(3)).tolist() == [1.0] * 3
        with forward_ad.dual_level():
            result = compiled(forward_ad.make_dual(torch.ones(3), torch.ones(3)))
            assert forward_ad.unpack_dual(result).tangent.tolist() == [2.0] * 3


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_level_of_forward_mode_within_a_function(backend):
    @compile_api.compile(backend=backend)
    def derivative(x):
        with forward_ad.dual_level():
            return forward_ad.unpack_dual((forward_ad.make_dual(x, torch.ones(3)) * 2).sin()).tangent + 1

    for _ in range(2):
        assert torch.allclose(derivative(torch.ones(3)), 2 * torch.tensor(2.0).cos() + 1)
    (stopped,) = compile_api.report(derivative).breaks
    assert "_enter_dual_level" in stopped.reason.explanation


VIEWS_OF_PARTS = {
    "conj": lambda z: z.conj(),
    "mH": lambda z: z.mH,
    "conj, imag": lambda z: z.conj().imag,
    "imag": lambda z: z.imag,
    "conj, a row": lambda z: z.conj()[0],
    "pairs": torch.view_as_real,
}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize(("written", "read"), [*itertools.product(VIEWS_OF_PARTS, repeat=2)])
def test_a_write_to_one_view_of_a_complex_tensor_is_seen_by_another(written, read, history, backend):
    def program(z):
        z = z * 1
        VIEWS_OF_PARTS[written](z).mul_(2).add_(1)
        return torch.view_as_real((VIEWS_OF_PARTS[read](z) * (1 + 1j)).resolve_conj()), z

    results = []
    for run in (program, compile_api.compile(program, backend=backend, fullgraph=True)):
        z = COMPLEX.clone().requires_grad_(history)
        pairs, made = run(z)
        gradients = torch.autograd.grad(pairs.sin().sum() + made.abs().sum(), z) if history else ()
        results.append([pairs, made.resolve_conj(), *gradients])
    torch.testing.assert_close(*results)
