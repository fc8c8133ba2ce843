"""What stands behind a convolution is given an image that lies as in eager, however convolutions like theirs best.

Values, strides and the state of the generator show it: kernels of torch's read rows, draw numbers in the order of
memory, and lay out what they give as what they are given.
"""

import random

import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves

import compile_api


def attention(y):
    q, k, v = y.reshape(2, 3, 2, 4, 64).unbind(1)
    return F.scaled_dot_product_attention(q, k, v)


@torch.library.custom_op("behind_convolutions::told", mutates_args=())
def told(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor(x.stride()) + x.view(-1)[0].long() * 0


@told.register_fake
def _(x):
    return torch.empty(4, dtype=torch.int64)


OPERATORS = {
    "attention": attention,
    "attention of images": lambda y: F.scaled_dot_product_attention(y, y, y, is_causal=True),
    "attention, expanded": lambda y: F.scaled_dot_product_attention(y, y[:, :1].expand_as(y), y),
    "randn_like": torch.randn_like,
    "randn_like of a part": lambda y: y[:, :4] + torch.randn_like(y[:, :4]) * y[:, 4:8].exp(),
    "rand_like": torch.rand_like,
    "randint_like": lambda y: torch.randint_like(y, 9),
    "normal_": lambda y: torch.empty_like(y).normal_(),
    "exponential_": lambda y: y.clone().exponential_(),
    "dropout": F.dropout,
    "dropout2d": F.dropout2d,
    "bernoulli": lambda y: y.sigmoid().bernoulli(),
    "gumbel_softmax": F.gumbel_softmax,
    "rrelu": lambda y: F.rrelu(y, training=True),
    "fake_quantize": lambda y: torch.fake_quantize_per_tensor_affine(y, 0.1, 0, -8, 7),
    "sort": lambda y: y.sort(1),
    "complex": lambda y: torch.complex(y, y),
    "an operator of the program": told,
}
# What is in memory; what is far off for other last digits; a GPU's own; of no image, and sparse.
LEFT_OUT = (
    *("empty", "new_empty", "linalg", "svd", "pca", "geqrf", "lu", "qr", "ormqr", "cholesky", "pinverse", "logdet"),
    *("jiterator", "bernoulli", "to_sparse", "unsafe_"),
)
OF_ONE = [each for each in op_db if torch.float32 in each.dtypes and not each.name.startswith(LEFT_OUT)]


def strides(tensors):
    """Those that say where elements are."""
    return [
        [(dim, step) for dim, (size, step) in enumerate(zip(each.shape, each.stride(), strict=True)) if size != 1]
        for each in tensors
        if each.numel()
    ]


def outcome(program, x):
    torch.manual_seed(3)
    results = [each for each in tree_leaves(program(x)) if isinstance(each, torch.Tensor)]
    return results, strides(results), torch.get_rng_state()


def differences(operator):
    """What differs from eager where an operator reads the image of a convolution that likes its channels innermost."""
    convolution, x = torch.nn.Conv2d(8, 24, 1), torch.randn(2, 8, 8, 8)

    def program(x):
        return operator(convolution(x).relu())

    compile_api.reset()
    compiled = compile_api.compile(program)
    for gradients in (False, True):
        with torch.set_grad_enabled(gradients):
            found, expected = outcome(compiled, x), outcome(program, x)
        pairs = zip(found[0], expected[0], strict=True)
        if not all(torch.allclose(*pair, rtol=1e-3, atol=1e-3, equal_nan=True) for pair in pairs):
            yield gradients, "values"
        if found[1] != expected[1]:
            yield gradients, found[1], expected[1]
        if not found[2].equal(expected[2]):
            yield gradients, "random numbers"


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_to_which_layouts_matter(name):
    assert not list(differences(OPERATORS[name]))


def takes_an_image(operator):
    try:
        return isinstance(operator.op(torch.rand(2, 24, 8, 8)), torch.Tensor)
    except Exception:  # noqa: BLE001 - it takes something else, or more
        return False


@pytest.mark.filterwarnings("ignore")  # of what is in beta, deprecated
def test_operators_of_one_image():
    drawn = [each for each in random.sample(OF_ONE, 60) if takes_an_image(each)]
    found = {operator.full_name: list(differences(operator.op)) for operator in drawn[:8]}
    assert not {name: each for name, each in found.items() if each}
