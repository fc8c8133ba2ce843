"""Gradients that torch refuses by the values that arrive are refused, and given where they are well-defined."""

import pytest
import torch

import compile_api

pytestmark = pytest.mark.without_graphs("such graphs are left to eager", cases="some")
SQUARE = torch.tensor([[0.0, -1.0, 0.2], [1.0, 0.1, 0.0], [0.3, 0.1, 0.5]])  # has complex eigenvalues
COMPLEX = SQUARE + 1j * SQUARE.flip(0)
HERMITIAN = COMPLEX + COMPLEX.mH
VECTORS = {
    "eig": (SQUARE, lambda a: torch.linalg.eig(a)[1]),
    "eigh": (HERMITIAN, lambda a: torch.linalg.eigh(a)[1]),
    "svd": (COMPLEX, lambda a: torch.linalg.svd(a)[0]),
}
LOSSES = {"of the phase": lambda v: v.real.square().sum(), "of sizes": lambda v: v.abs()[0].sum()}


def outcome(program, matrix):
    """The gradient, or the error."""
    matrix = matrix.clone().requires_grad_()
    try:
        loss = program(matrix)
        if matrix.grad is None:
            loss.backward()
    except RuntimeError as error:
        return str(error)
    return matrix.grad


@pytest.mark.parametrize("inside", [False, True], ids=["behind the function", "within it"])
@pytest.mark.parametrize("of", LOSSES)
@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_loss_of_eigenvectors_is_refused_where_it_depends_on_their_phase(backend, name, of, inside):
    matrix, vectors = VECTORS[name]

    def program(a):
        loss = LOSSES[of](vectors(a))
        if inside:
            loss.backward()
        return loss

    expected = outcome(program, matrix)
    assert isinstance(expected, str) == (of == "of the phase")
    found = outcome(compile_api.compile(program, backend=backend), matrix)
    if of == "of sizes":
        torch.testing.assert_close(found, expected)
    else:
        assert found == expected


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_loss_of_eigenvalues_is_compiled(backend):
    f = compile_api.compile(lambda a: torch.linalg.eig(a)[0].real.square().sum(), backend=backend)
    torch.testing.assert_close(
        outcome(f, SQUARE), outcome(lambda a: torch.linalg.eig(a)[0].real.square().sum(), SQUARE)
    )
    assert not compile_api.report(f).refused


@pytest.mark.parametrize("written", ["running_mean", "running_var", "weight", "image", None])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_what_batch_norm_by_fixed_statistics_saved_is_not_to_be_written(backend, written):
    norm = torch.nn.BatchNorm2d(3).eval()

    def program(a):
        image = a.expand(2, 3, 3, 3) * 2
        normalised = norm(image)
        if written is not None:
            image.detach().mul_(2) if written == "image" else getattr(norm, written).detach().mul_(2)
        return normalised.square().sum()

    expected = outcome(program, SQUARE)
    norm = torch.nn.BatchNorm2d(3).eval()  # errors tell how often a tensor was written to
    found = outcome(compile_api.compile(program, backend=backend), SQUARE)
    assert found == expected if written else torch.allclose(found, expected)
